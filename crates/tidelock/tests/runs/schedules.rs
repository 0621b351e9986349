//! Scheduled runs.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt;
use tidelock::Timestamp;
use tidelock::prelude::*;
use tidelock::runs::{
    CatchUp, Overlap, RunCtx, RunFilter, RunInfo, RunState, Schedule, ScheduleError,
};
use tidelock_test_stage::{Observed, Running, TestStore, on_every_store, until};

use crate::flow::{Flow, app, count, seen};

on_every_store!(
    two_schedulers_start_one_run_for_each_occurrence,
    missed_occurrences_are_caught_up_by_policy,
    an_occurrence_is_left_out_while_an_earlier_run_is_open_if_the_schedule_says_so,
    a_schedule_said_again_is_the_same_and_a_paused_one_rests,
    a_schedule_that_cannot_be_is_refused,
);

/// Every second: short enough for real time.
const EVERY_SECOND: &str = "* * * * * *";

async fn runs_of(tidelock: &Tidelock, schedule: &str) -> Vec<RunInfo> {
    tidelock.runs().list(&RunFilter::all().attribute("schedule", schedule)).all().await.unwrap()
}

fn tick(steps: &Observed) -> Flow<(), ()> {
    let noted = steps.clone();
    let workflow = move |ctx: RunCtx, (): ()| {
        let noted = noted.clone();
        async move { seen(&ctx, "tick", &noted).await }.boxed()
    };
    Flow::new("tick", workflow)
}

/// Waits until the store's clock has advanced this much.
async fn pass(tidelock: &Tidelock, time: Duration) {
    let then = tidelock.store().now().await.unwrap().plus(time);
    until("time has passed", async || tidelock.store().now().await.unwrap() >= then).await;
}

/// RUN-42. Schedule 42.
async fn two_schedulers_start_one_run_for_each_occurrence(stage: TestStore) {
    let (here, there, steps) =
        (stage.tidelock().await, stage.tidelock().await, Observed::default());
    let running = [(&here, "one"), (&there, "two")]
        .map(|(on, name)| Running::start(app(on, name, tick(&steps))));
    let schedule =
        Schedule::cron(EVERY_SECOND).starts("tick", &()).catch_up(CatchUp::Each { at_most: 100 });
    let put = here.schedules().put("clock", schedule.clone()).await.unwrap();
    there.schedules().put("clock", schedule).await.unwrap();
    steps.until(2).await;
    for running in running {
        running.stop().await;
    }
    let runs = runs_of(&here, "clock").await;
    let first = runs.last().unwrap();
    assert_eq!(first.run.as_str(), format!("clock@{}Z", &put.next.unwrap().to_string()[..19]));
    for run in &runs {
        assert_eq!(count(&here, run.run.as_str(), "~started").await, 1);
    }
    let done = steps.lines();
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), done.len(), "each once: {done:?}");
}

/// The occurrence that a run was started for.
fn occurrence(run: &RunInfo) -> Timestamp {
    run.run.as_str().split_once('@').unwrap().1.parse().unwrap()
}

/// RUN-43. Schedule 45.
async fn missed_occurrences_are_caught_up_by_policy(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let schedules = tidelock.schedules();
    let second = Duration::from_secs(1);
    let rules = [
        // The maximum age of the oldest occurrence that is caught up, and how many are.
        ("skip", CatchUp::Skip { tolerance: second / 2 }, second / 2, 0),
        ("once", CatchUp::Once, second, 1),
        ("each", CatchUp::Each { at_most: 2 }, second * 2, 2),
    ];
    for (name, rule, ..) in rules {
        let schedule = Schedule::cron(EVERY_SECOND).starts("tick", &()).catch_up(rule);
        schedules.put(name, schedule).await.unwrap();
    }
    let began = schedules.get("once").await.unwrap().unwrap().next.unwrap();
    pass(&tidelock, second * 7 / 2).await;
    let back = tidelock.store().now().await.unwrap();
    assert!(back.since(began) >= second * 2, "at least three were missed");
    let running = Running::start(app(&tidelock, "one", tick(&Observed::default())));
    let next = async |name: &str| schedules.get(name).await.unwrap().unwrap().next.unwrap();
    for (name, _, late, at_least) in rules {
        until("it goes on", async || next(name).await > back).await;
        let runs = runs_of(&tidelock, name).await;
        assert!(runs.len() >= at_least, "{name}: {runs:?}");
        if let Some(oldest) = runs.iter().map(occurrence).min() {
            assert!(oldest.plus(late) >= back, "{name}: a burst from {oldest} on, at {back}");
        }
    }
    running.stop().await;
}

/// RUN-44.
async fn an_occurrence_is_left_out_while_an_earlier_run_is_open_if_the_schedule_says_so(
    stage: TestStore,
) {
    let tidelock = stage.tidelock().await;
    let waits = |ctx: RunCtx, (): ()| async move { ctx.wait_for_signal::<()>("go").await }.boxed();
    let running = Running::start(app(&tidelock, "one", Flow::new("waits", waits)));
    for (name, overlap) in [("alone", Overlap::Skip), ("together", Overlap::Allow)] {
        let schedule = Schedule::cron(EVERY_SECOND).starts("waits", &()).overlap(overlap);
        tidelock.schedules().put(name, schedule).await.unwrap();
    }
    until("two wait together", async || runs_of(&tidelock, "together").await.len() >= 2).await;
    let alone = runs_of(&tidelock, "alone").await;
    assert_eq!(alone.len(), 1, "{alone:?}");
    tidelock.runs().run(alone[0].run.as_str()).signal("go", &()).await.unwrap();
    until("the next one is started", async || runs_of(&tidelock, "alone").await.len() == 2).await;
    let open = RunFilter::all().attribute("schedule", "alone").state(RunState::Open);
    assert_eq!(tidelock.runs().list(&open).all().await.unwrap().len(), 1);
    running.stop().await;
}

/// RUN-44.
async fn a_schedule_said_again_is_the_same_and_a_paused_one_rests(stage: TestStore) {
    let (tidelock, steps) = (stage.tidelock().await, Observed::default());
    let schedules = tidelock.schedules();
    let nightly = |zone: &str| Schedule::cron("0 3 * * *").zone(zone).starts("tick", &());
    let first = schedules.put("nightly", nightly("Europe/Berlin")).await.unwrap();
    assert_eq!(schedules.put("nightly", nightly("Europe/Berlin")).await.unwrap(), first);
    let moved = schedules.put("nightly", nightly("Asia/Tokyo")).await.unwrap();
    assert_ne!(moved.next, first.next, "three o'clock is another moment there");
    let changed = nightly("Asia/Tokyo").catch_up(CatchUp::Each { at_most: 2 });
    assert_eq!(
        schedules.put("nightly", changed).await.unwrap().next,
        moved.next,
        "the moments are the same"
    );

    schedules.put("clock", Schedule::cron(EVERY_SECOND).starts("tick", &())).await.unwrap();
    assert_eq!(schedules.pause("clock").await.unwrap().next, None);
    let running = Running::start(app(&tidelock, "one", tick(&steps)));
    pass(&tidelock, Duration::from_millis(1_200)).await;
    assert_eq!(steps.count(), 0, "it is paused");
    let again = schedules.resume("clock").await.unwrap();
    steps.until(1).await;
    let first = runs_of(&tidelock, "clock").await.pop().unwrap();
    assert!(
        first.started_at >= again.next.unwrap(),
        "what came while it was paused is not made up for"
    );
    let listed: Vec<_> =
        schedules.list().await.unwrap().into_iter().map(|s| s.name.to_string()).collect();
    assert_eq!(listed, ["clock", "nightly"]);
    assert!(schedules.delete("clock").await.unwrap());
    assert!(!schedules.delete("clock").await.unwrap());
    assert_eq!(schedules.get("clock").await.unwrap(), None);
    let seen = runs_of(&tidelock, "clock").await.len();
    pass(&tidelock, Duration::from_millis(1_200)).await;
    assert_eq!(
        runs_of(&tidelock, "clock").await.len(),
        seen,
        "a schedule that is gone starts nothing"
    );
    running.stop().await;
}

/// RUN-44.
async fn a_schedule_that_cannot_be_is_refused(stage: TestStore) {
    let schedules = stage.tidelock().await.schedules();
    let put = async |schedule: Schedule| schedules.put("s", schedule).await.unwrap_err();
    let odd = put(Schedule::cron("every night").starts("w", &())).await;
    assert!(matches!(odd, ScheduleError::Pattern { .. }), "{odd}");
    let never = put(Schedule::cron("0 0 30 2 *").starts("w", &())).await;
    assert!(matches!(never, ScheduleError::Never { .. }), "{never}");
    let nothing = put(Schedule::cron("0 0 * * *")).await;
    assert!(matches!(nothing, ScheduleError::StartsNothing), "{nothing}");
    let nowhere = put(Schedule::cron("0 0 * * *").zone("Mars/Olympus").starts("w", &())).await;
    assert!(nowhere.to_string().contains("Mars/Olympus"), "{nowhere}");
    let none = schedules.pause("s").await.unwrap_err();
    assert_eq!(none.to_string(), r#"schedule "s": it does not exist; create it first"#);
}
