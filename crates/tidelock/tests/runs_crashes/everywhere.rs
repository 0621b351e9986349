//! A process dies at every await point of a run, one after the other, and another process finishes
//! the run.
//!
//! The await points of a run are its calls to the store and its effects. A victim starts its own
//! run, drives it, and is killed before or after its nth call, for every n until it survives; and
//! before and after each effect.

use std::collections::{BTreeMap, BTreeSet};

use tidelock::prelude::*;
use tidelock::runs::RunFilter;
use tidelock::store::StoreExt;
use tidelock_test_stage::{
    LEASE, Meeting, Observed, PATIENCE, Process, Role, Running, TestStore, brisk, for_real,
};

use crate::crash_point::{CrashPoint, CrashingStore, Side};
use crate::history::History;
use crate::order::{
    AT_LEAST_ONCE, AT_MOST_ONCE, DONE, EFFECTS, Hands, LONG_LEASE, LOOK, Receipt, UNKNOWN, counter,
    place, register,
};

/// How many calls are tested at once, on both sides: the number of processes is twice that.
const WAVE: u64 = 3;
/// A run of so many steps makes more calls than this.
const AT_LEAST: u64 = 10;

/// The victim process; does nothing by itself.
#[tokio::test]
async fn a_victim() {
    let Some(role) = Role::ours() else { return };
    let (name, doom) = (role.name.clone(), role.name.parse::<CrashPoint>().unwrap());
    let store = tidelock::open(&role.url).await.unwrap();
    let tidelock = Tidelock::over(CrashingStore::over(store.clone(), doom.clone()));
    place(&tidelock, &name).await;
    let noting = role.clone();
    let hands = Hands::new(move |line| noting.note(line)).doomed(&doom);
    let app = register(tidelock.app().worker(brisk(&name)), &name, &hands, LEASE);
    let running = Running::start(app);
    // Bypasses the counted store.
    let run = Tidelock::over(store).runs().run(&name);
    run.typed::<Receipt>().result().await.unwrap();
    running.stop().await;
    role.note(&format!("survived {name}"));
}

/// The case of one crash point.
#[derive(Debug)]
struct Case {
    doom: CrashPoint,
    /// What was recorded at the time of the crash.
    at_death: History,
    /// What is recorded in the end.
    history: History,
    receipt: Receipt,
    /// The effects of the victim, and of its successors.
    by_victim: Vec<Line>,
    by_heir: Vec<Line>,
}

/// A step with an effect, and its key.
type Line = (String, String);

/// Schedules 35, 48, 88 and 89. Also 40 and 41: the signal may precede the start, and is sent
/// twice.
async fn a_run_survives_a_death_at_every_await_point(stage: TestStore) {
    let meeting = Meeting::on(&stage, "everywhere::a_victim");
    let mut dooms = die_at_every_call(&meeting).await;
    let effects = EFFECTS
        .map(|step| [Side::Before, Side::After].map(|side| CrashPoint::Effect(side, step.into())));
    for wave in effects {
        die(&meeting, &wave).await;
        dooms.extend(wave);
    }
    let cases = finish(&stage, &meeting, &dooms).await;
    for case in &cases {
        assert_done(case);
        assert_in_store_once(&stage, case).await;
    }
    assert_everything_happened(&cases);
    println!("{} deaths", cases.len());
}

/// Victims that die at their first call, their second, … until one survives.
async fn die_at_every_call(meeting: &Meeting) -> Vec<CrashPoint> {
    let mut dooms = Vec::new();
    for first in (1..).step_by(WAVE as usize) {
        let calls = (first..first + WAVE)
            .flat_map(|nth| [Side::Before, Side::After].map(|side| (side, nth)));
        let wave: Vec<CrashPoint> = calls.map(|(side, nth)| CrashPoint::Call(side, nth)).collect();
        die(meeting, &wave).await;
        dooms.extend(wave);
        if meeting.notes().iter().any(|line| line.starts_with("survived")) {
            assert!(first > AT_LEAST, "a run makes more than {first} calls: {:?}", meeting.notes());
            return dooms;
        }
    }
    unreachable!("some victim survives")
}

async fn die(meeting: &Meeting, wave: &[CrashPoint]) {
    let victims: Vec<Process> = wave.iter().map(|doom| meeting.start(&doom.to_string())).collect();
    for mut victim in victims {
        victim.until_ended().await;
    }
}

/// One healthy process finishes every run.
async fn finish(stage: &TestStore, meeting: &Meeting, dooms: &[CrashPoint]) -> Vec<Case> {
    let (tidelock, store, seen) =
        (stage.tidelock().await, stage.store().await, Observed::default());
    let mut deaths = Vec::new();
    for doom in dooms {
        deaths.push(History::of(&*store, &doom.to_string()).await);
        place(&tidelock, &doom.to_string()).await;
    }
    let noting = seen.clone();
    let hands = Hands::new(move |line| noting.note(line));
    let heir = tidelock.app().worker(brisk("heir"));
    let add = |app, doom: &CrashPoint| register(app, &doom.to_string(), &hands, LONG_LEASE);
    let running = Running::start(dooms.iter().fold(heir, add));
    let mut cases = Vec::new();
    for (doom, at_death) in dooms.iter().zip(deaths) {
        let run = doom.to_string();
        let receipt = tidelock.runs().run(&run).typed::<Receipt>().result().within(PATIENCE).await;
        let receipt = receipt.unwrap_or_else(|e| panic!("{e}: {:?}", at_death.kinds()));
        let history = History::of(&*store, &run).await;
        let (by_victim, by_heir) = (lines(&meeting.notes(), &run), lines(&seen.lines(), &run));
        cases.push(Case { doom: doom.clone(), at_death, history, receipt, by_victim, by_heir });
    }
    running.stop().await;
    cases
}

/// The effects for this run.
fn lines(notes: &[String], run: &str) -> Vec<Line> {
    let own = notes.iter().filter_map(|line| line.strip_prefix(run)?.strip_prefix(' '));
    own.filter_map(|line| line.split_once(' '))
        .map(|(step, key)| (step.into(), key.into()))
        .collect()
}

fn assert_done(case: &Case) {
    let effects = |step: &'static str| {
        case.by_victim.iter().chain(&case.by_heir).filter(move |line| line.0 == step)
    };
    for step in AT_LEAST_ONCE {
        let keys: BTreeSet<_> = effects(step).map(|line| line.1.clone()).collect();
        assert_eq!(keys, BTreeSet::from([format!("{}:{step}", case.doom)]), "one key: {case:?}");
    }
    let shipped = effects(AT_MOST_ONCE).count();
    assert!(shipped <= 1, "never twice: {case:?}");
    let recorded = case.at_death.names("step");
    let again = case.by_heir.iter().filter(|line| recorded.contains(&line.0)).count();
    assert_eq!(again, 0, "what is recorded is not done again: {case:?}");
    let looked = case.by_victim.iter().any(|line| line.0 == LOOK);
    assert!(!looked || recorded.contains(&"charge".into()), "recorded before it is seen: {case:?}");
    let is_unknown = case.at_death.names("intent").contains(&AT_MOST_ONCE.into())
        && !recorded.contains(&AT_MOST_ONCE.into());
    let expected = Receipt {
        charged: DONE.into(),
        shipped: if is_unknown { UNKNOWN } else { DONE }.into(),
        delivered: DONE.into(),
        approved: "ada".into(),
        thanked: DONE.into(),
    };
    assert_eq!(case.receipt, expected, "{case:?}");
    assert!(is_unknown || shipped == 1, "what is said to be done was: {case:?}");
}

async fn assert_in_store_once(stage: &TestStore, case: &Case) {
    let (store, run, history) = (stage.store().await, case.doom.to_string(), &case.history);
    for key in [format!("{run}:reserve"), format!("{run}/parcel:pack")] {
        let count = store.get_one(&counter(&key)).await.unwrap().into_live().unwrap().value;
        assert_eq!(count.as_str(), "1", "exactly once: {key}, {case:?}");
    }
    assert_eq!(history.names("step"), ["charge", "reserve", "ship", "thank"], "{case:?}");
    for once in
        ["started", "intent", "timer", "fired", "child", "child-ended", "signalled", "received"]
    {
        assert_eq!(history.count(once), 1, "{once}: {case:?}");
    }
    assert_eq!(history.kinds().last(), Some(&"completed"), "{case:?}");
    assert_eq!(history.count("completed"), 1, "{case:?}");
    let child = History::of(&*store, &format!("{run}/parcel")).await;
    assert_eq!((child.count("started"), child.count("completed")), (1, 1), "one child: {case:?}");
    let children = RunFilter::all().workflow(format!("parcel-{run}"));
    let children = Tidelock::over(store).runs().list(&children).all().await.unwrap();
    assert_eq!(children.len(), 1, "one child: {case:?}");
}

/// The test is only meaningful if every kind of failure occurred.
fn assert_everything_happened(cases: &[Case]) {
    let case = |doom: &str| cases.iter().find(|case| case.doom.to_string() == doom).unwrap();
    let repeated = case("after-effect-charge");
    assert_eq!(
        (repeated.by_victim.len(), repeated.by_heir[0].0.as_str()),
        (1, "charge"),
        "{repeated:?}"
    );
    let unknown = cases.iter().filter(|case| case.receipt.shipped == UNKNOWN);
    let done = unknown.map(|case| case.by_victim.iter().any(|line| line.0 == AT_MOST_ONCE));
    let done: BTreeSet<bool> = done.collect();
    assert_eq!(
        done,
        BTreeSet::from([false, true]),
        "steps with an unknown outcome were done or not"
    );
    let mut found = BTreeMap::<usize, usize>::new();
    for case in cases {
        *found.entry(case.at_death.kinds().len()).or_default() += 1;
    }
    assert!(found.contains_key(&0), "some died before their runs were there: {found:?}");
    assert!(found.len() > 6, "deaths at all stages of a history: {found:?}");
}

mod sqlite {
    use super::*;

    #[test]
    fn a_run_survives_a_death_at_every_await_point() {
        for_real(TestStore::sqlite(), super::a_run_survives_a_death_at_every_await_point);
    }
}

mod postgres {
    use super::*;

    #[test]
    fn a_run_survives_a_death_at_every_await_point() {
        for_real(TestStore::postgres(), super::a_run_survives_a_death_at_every_await_point);
    }
}
