//! Several processes and one run: one is stopped, one is killed, one drains, and others take over.

use std::future::Future;
use std::time::Duration;

use nix::sys::signal::Signal;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunHandle, StepError, StepKey, WorkflowOptions};
use tidelock::store::{Bounds, RecordWrite, StoreExt, StoreOperation};
use tidelock_test_stage::{
    Interceptor, LEASE, Meeting, PATIENCE, Process, Role, TestStore, Wrapped, brisk, for_real,
};

use crate::history::History;
use crate::order::{LONG_LEASE, counter};

const WORKFLOW: &str = "job";

fn meeting_on(stage: &TestStore) -> Meeting {
    Meeting::on(stage, "executors::an_executor")
}

/// The child process; does nothing by itself. Its role is a name, the name of its worker, and its
/// lease.
#[tokio::test]
async fn an_executor() {
    let Some(role) = Role::ours() else { return };
    let words: Vec<&str> = role.name.split(' ').collect();
    let [name, worker, lease] = words[..] else { panic!("{:?} is no role", role.name) };
    let lease = Duration::from_millis(lease.parse().unwrap());
    let (me, own) = (name.to_owned(), role.clone());
    let job = move |ctx, (): ()| job(ctx, me.clone(), own.clone());
    let store = tidelock::open(&role.url).await.unwrap();
    let tidelock = Tidelock::over(if name == "deaf" { Wrapped::new(store, Deaf) } else { store });
    let options = WorkflowOptions::named(WORKFLOW).lease(lease);
    let app = tidelock.app().workflow(options, job).worker(brisk(worker)).build().unwrap();
    let stop = async {
        role.allowed(&format!("stop {name}")).await;
        role.note(&format!("stopping {name}"));
    };
    app.run_until(stop).await.unwrap();
}

/// Never gets a reply to a renewal, and so never learns that its lease is lost.
#[derive(Debug)]
struct Deaf;

impl Interceptor for Deaf {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = tidelock::store::Result<T>> + Send,
    ) -> tidelock::store::Result<T> {
        match operation {
            StoreOperation::Renew => std::future::pending().await,
            _ => call.await,
        }
    }
}

/// Charges when it is allowed to, counts, ships; its result names the process.
async fn job(ctx: RunCtx, me: String, role: Role) -> Result<(String, String), StepError> {
    let charged = ctx.step("charge", |key| charge(&me, &role, key)).await?;
    let count = async |tx: tidelock::Tx| {
        tx.write(RecordWrite::add(&counter(tx.effect_key()), 1, Bounds::NONE))?;
        Ok::<_, HandlerError>(())
    };
    ctx.transact("reserve", count).await?;
    let ship = async |key: StepKey| {
        role.note(&format!("shipping {me} {key}"));
        Ok::<_, HandlerError>(me.clone())
    };
    let shipped = ctx.step("ship", ship).await?;
    Ok((charged, shipped))
}

async fn charge(me: &str, role: &Role, key: StepKey) -> Result<String, HandlerError> {
    role.note(&format!("charging {me} {key}"));
    role.allowed(&format!("go {me}")).await;
    Ok(me.to_owned())
}

/// Starts a process with this name and this worker.
fn executor(meeting: &Meeting, name: &str, worker: &str, lease: Duration) -> Process {
    meeting.start(&format!("{name} {worker} {}", lease.as_millis()))
}

async fn start(stage: &TestStore, run: &str) -> RunHandle {
    stage.tidelock().await.start(WORKFLOW, run, &()).version(1).await.unwrap()
}

async fn result(run: &RunHandle) -> (String, String) {
    run.typed().result().within(PATIENCE).await.unwrap()
}

/// Everything is recorded once, and takes effect once in the store.
async fn assert_recorded_once(stage: &TestStore, run: &str) {
    let (store, history) = (stage.store().await, History::of(&*stage.store().await, run).await);
    assert_eq!(history.names("step"), ["charge", "reserve", "ship"], "{:?}", history.kinds());
    assert_eq!((history.count("completed"), history.kinds().last()), (1, Some(&"completed")));
    let count =
        store.get_one(&counter(&format!("{run}:reserve"))).await.unwrap().into_live().unwrap();
    assert_eq!(count.value.as_str(), "1");
}

/// The processes that did this for a run, according to the notes.
fn who(meeting: &Meeting, what: &str, run: &str) -> Vec<String> {
    let (notes, what) = (meeting.notes(), format!("{what} "));
    let about = notes.iter().filter_map(|line| line.strip_prefix(&what)?.split_once(' '));
    about
        .filter(|(_, key)| key.starts_with(&format!("{run}:")))
        .map(|(who, _)| who.to_owned())
        .collect()
}

/// Schedules 36 and 37. The stalled process has another value than the recorded one.
async fn a_holder_that_slept_past_its_lease_records_nothing(stage: TestStore) {
    let meeting = meeting_on(&stage);
    let run = start(&stage, "slept").await;
    let mut first = executor(&meeting, "first", "one", LEASE);
    meeting.until_noted("charging first").await;
    meeting.stop(&first).await;
    meeting.allow("go second");
    let mut second = executor(&meeting, "second", "two", LEASE);
    meeting.until_noted("charging second").await;
    assert_eq!(result(&run).await, ("second".into(), "second".into()));

    first.signal(Signal::SIGCONT);
    for word in ["go first", "stop first", "stop second"] {
        meeting.allow(word);
    }
    first.until_ended().await;
    second.until_ended().await;
    assert_recorded_once(&stage, "slept").await;
    assert_eq!(result(&run).await, ("second".into(), "second".into()));
    assert_eq!(
        who(&meeting, "charging", "slept"),
        ["first", "second"],
        "both under the key of the step"
    );
    assert_eq!(who(&meeting, "shipping", "slept"), ["second"]);
}

/// Schedules 36 and 37. It never learns of its loss; its writes are refused all the same.
async fn a_holder_that_never_hears_of_its_loss_records_nothing(stage: TestStore) {
    let meeting = meeting_on(&stage);
    let run = start(&stage, "unheard").await;
    let mut deaf = executor(&meeting, "deaf", "one", LEASE);
    meeting.until_noted("charging deaf").await;
    meeting.allow("stop deaf");
    meeting.until_noted("stopping deaf").await;
    meeting.allow("go second");
    let mut second = executor(&meeting, "second", "two", LEASE);
    assert_eq!(result(&run).await, ("second".into(), "second".into()));

    meeting.allow("go deaf");
    deaf.until_ended().await;
    meeting.allow("stop second");
    second.until_ended().await;
    assert_recorded_once(&stage, "unheard").await;
    assert_eq!(who(&meeting, "shipping", "unheard"), ["second"]);
}

/// Schedule 36.
async fn two_processes_that_recover_a_run_finish_it_once(stage: TestStore) {
    let meeting = meeting_on(&stage);
    let run = start(&stage, "recovered").await;
    let first = executor(&meeting, "first", "one", LEASE);
    meeting.until_noted("charging first").await;
    meeting.allow("go second");
    meeting.allow("go third");
    let mut others =
        [("second", "two"), ("third", "three")].map(|(n, w)| executor(&meeting, n, w, LEASE));
    first.kill().await;
    let (charged, _) = result(&run).await;
    assert!(["second", "third"].contains(&charged.as_str()), "{charged}");
    meeting.allow("stop second");
    meeting.allow("stop third");
    for other in &mut others {
        other.until_ended().await;
    }
    assert_recorded_once(&stage, "recovered").await;
    assert_eq!(who(&meeting, "charging", "recovered")[0], "first");
}

/// Schedule 38. While the old process drains, one of the same name serves other runs, and not that
/// one.
async fn a_name_that_is_used_again_while_its_old_bearer_drains_duplicates_nothing(
    stage: TestStore,
) {
    let meeting = meeting_on(&stage);
    let run = start(&stage, "drained").await;
    let mut old = executor(&meeting, "old", "same", LONG_LEASE);
    meeting.until_noted("charging old").await;
    meeting.allow("stop old");
    meeting.until_noted("stopping old").await;
    let probe = start(&stage, "probe").await;
    let mut new = executor(&meeting, "new", "same", LONG_LEASE);
    meeting.until_noted("charging new probe:").await;
    meeting.allow("go new");
    assert_eq!(result(&probe).await, ("new".into(), "new".into()));
    assert_eq!(who(&meeting, "charging", "drained"), ["old"]);

    meeting.allow("go old");
    assert_eq!(result(&run).await, ("old".into(), "new".into()));
    old.until_ended().await;
    meeting.allow("stop new");
    new.until_ended().await;
    assert_recorded_once(&stage, "drained").await;
    assert_eq!(who(&meeting, "charging", "drained"), ["old"]);
    assert_eq!(who(&meeting, "shipping", "drained"), ["new"]);
}

/// Schedule 38. The old process dies while it drains.
async fn a_name_that_is_used_again_strands_nothing(stage: TestStore) {
    let meeting = meeting_on(&stage);
    let run = start(&stage, "left").await;
    let old = executor(&meeting, "old", "same", LEASE);
    meeting.until_noted("charging old").await;
    meeting.allow("stop old");
    meeting.until_noted("stopping old").await;
    meeting.allow("go new");
    let mut new = executor(&meeting, "new", "same", LEASE);
    old.kill().await;
    assert_eq!(result(&run).await, ("new".into(), "new".into()));
    meeting.allow("stop new");
    new.until_ended().await;
    assert_recorded_once(&stage, "left").await;
}

macro_rules! on {
    ($module:ident, $stage:ident: $($case:ident),* $(,)?) => {
        mod $module {
            use super::*;
            $(#[test] fn $case() { for_real(TestStore::$stage(), super::$case); })*
        }
    };
}

on!(sqlite, sqlite:
    a_holder_that_slept_past_its_lease_records_nothing,
    a_holder_that_never_hears_of_its_loss_records_nothing,
    two_processes_that_recover_a_run_finish_it_once,
    a_name_that_is_used_again_while_its_old_bearer_drains_duplicates_nothing,
    a_name_that_is_used_again_strands_nothing,
);
on!(postgres, postgres:
    a_holder_that_slept_past_its_lease_records_nothing,
    a_holder_that_never_hears_of_its_loss_records_nothing,
    two_processes_that_recover_a_run_finish_it_once,
    a_name_that_is_used_again_while_its_old_bearer_drains_duplicates_nothing,
    a_name_that_is_used_again_strands_nothing,
);
