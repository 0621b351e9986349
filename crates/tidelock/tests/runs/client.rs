//! The client's view: starting, reading and ending runs.

use std::time::Duration;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::runs::{RunError, RunHandle, RunState, RunStatus};
use tidelock::store::{StoreExt, StreamName};
use tidelock_test_stage::{TestStore, on_every_store};

on_every_store!(
    the_history_is_read_page_by_page,
    a_start_is_idempotent_by_the_id_of_the_run,
    concurrent_starts_of_one_id_start_one_run,
    a_run_is_stored_before_it_is_driven_and_waits_for_a_worker,
    an_unregistered_workflow_is_not_started,
    a_terminated_run_has_ended_for_good,
    names_and_inputs_that_cannot_be_stored_are_refused,
    a_run_that_does_not_exist_says_so_whatever_is_asked_of_it,
);

/// A run that is never driven, because its workflow is not registered.
pub(crate) async fn idle(tidelock: &Tidelock, run: &str) -> RunHandle {
    tidelock.start("idle", run, &json!({ "of": run })).version(1).await.unwrap()
}

/// RUN-31.
async fn a_start_is_idempotent_by_the_id_of_the_run(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let first = here.start("checkout", "order-7", &json!({ "a": 1, "b": [2] })).version(1);
    let first = first.await.unwrap().get().await.unwrap();
    let again = there.start("checkout", "order-7", &json!({ "b": [2], "a": 1 })).version(2);
    let again = again.await.unwrap().get().await.unwrap();
    assert_eq!(again, first, "the run that is there, whatever order the keys of its input are in");
    assert_eq!((first.state, first.version.0, first.generation), (RunState::Open, 1, 1));

    let other =
        there.start("checkout", "order-7", &json!({ "a": 2 })).version(1).await.unwrap_err();
    assert!(matches!(other, RunError::OtherRun { .. }), "{other}");
    let other = there.start("refund", "order-7", &json!({ "a": 1, "b": [2] })).version(1);
    let told = other.await.unwrap_err().to_string();
    for named in ["order-7", "checkout", "refund"] {
        assert!(told.contains(named), "{told}");
    }
    let events =
        here.store().read_whole_stream(&StreamName::new("~run/order-7").unwrap()).await.unwrap();
    assert_eq!(events.len(), 1, "nothing was written for the others");
}

/// RUN-31.
async fn concurrent_starts_of_one_id_start_one_run(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let starts = (0..16).map(|nth| {
        let tidelock = if nth % 2 == 0 { here.clone() } else { there.clone() };
        tokio::spawn(async move { idle(&tidelock, "one").await })
    });
    for start in starts.collect::<Vec<_>>() {
        start.await.unwrap();
    }
    let events =
        here.store().read_whole_stream(&StreamName::new("~run/one").unwrap()).await.unwrap();
    assert_eq!(events.len(), 1);
}

/// RUN-32. Schedule 89, without a crash: the run is stored before it is driven.
async fn a_run_is_stored_before_it_is_driven_and_waits_for_a_worker(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let run = idle(&here, "r").await;
    let told = there.runs().run("r").status().await.unwrap();
    assert!(matches!(told, RunStatus::Due { .. }), "{told:?}");
    assert_eq!(there.runs().run("r").resume().await.unwrap(), told, "asking changes nothing");
    let waited = run.typed::<()>().result().within(Duration::from_millis(5)).await.unwrap_err();
    assert!(matches!(waited, RunError::StillOpen { .. }), "{waited}");
}

/// RUN-31.
async fn an_unregistered_workflow_is_not_started(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let refused = tidelock.start("nowhere", "r", &()).await.unwrap_err();
    assert!(matches!(refused, RunError::UnknownWorkflow { .. }));
    assert!(refused.to_string().contains(r#"workflow "nowhere""#), "{refused}");
    assert!(matches!(tidelock.runs().run("r").get().await, Err(RunError::NoRun { .. })));
}

/// RUN-38.
async fn a_terminated_run_has_ended_for_good(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let run = idle(&here, "r").await;
    let other = there.runs().run("r");
    other.terminate("out of order").await.unwrap();
    let info = run.get().await.unwrap();
    assert_eq!(info.state, RunState::Terminated);
    assert!(info.ended_at.unwrap() >= info.started_at);
    let told = run.typed::<()>().result().await.unwrap_err().to_string();
    assert_eq!(told, r#"run "r": it was terminated: out of order"#);
    for refused in [
        run.terminate("again").await.unwrap_err(),
        run.cancel("too late").await.unwrap_err(),
        run.signal("approve", &1).await.unwrap_err(),
    ] {
        let ended = matches!(refused, RunError::Ended { state: RunState::Terminated, .. });
        assert!(ended && refused.to_string().contains(r#"run "r": it is terminated"#), "{refused}");
    }
    let refused = run.retry("please").await.unwrap_err().to_string();
    assert_eq!(refused, r#"run "r": it is terminated, and only a failed run can be retried"#);
    let again = here.start("idle", "r", &json!({ "of": "r" })).version(1).await.unwrap();
    assert_eq!(again.get().await.unwrap(), info, "a finished run stays finished");
}

/// RUN-31.
async fn names_and_inputs_that_cannot_be_stored_are_refused(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let start = |workflow: &str, run: &str| tidelock.start(workflow, run, &()).version(1);
    assert!(start("a/b", "r").await.unwrap_err().to_string().contains(r#"workflow "a/b""#));
    assert!(start("w", "~r").await.unwrap_err().to_string().contains(r#"run id "~r""#));
    let signal = tidelock.runs().run("r").signal("~cancel", &()).await.unwrap_err();
    assert!(signal.to_string().contains(r#"signal "~cancel""#), "{signal}");
    let large = "x".repeat(tidelock::store::limits::PAYLOAD_BYTES);
    let refused = tidelock.start("w", "r", &large).version(1).await.unwrap_err();
    assert!(refused.to_string().contains("the limit is 1048576"), "{refused}");
    let refused = start("w", "r").attribute("note", "x".repeat(600)).await.unwrap_err().to_string();
    assert!(refused.contains(r#"attribute "note" of run "r""#), "{refused}");
    assert!(matches!(tidelock.runs().run("r").get().await, Err(RunError::NoRun { .. })));
}

/// RUN-34.
async fn a_run_that_does_not_exist_says_so_whatever_is_asked_of_it(stage: TestStore) {
    let run = stage.tidelock().await.runs().run("absent");
    for refused in [
        run.get().await.unwrap_err(),
        run.status().await.unwrap_err(),
        run.resume().await.unwrap_err(),
        run.cancel("why").await.unwrap_err(),
        run.terminate("why").await.unwrap_err(),
        run.retry("why").await.unwrap_err(),
        run.typed::<()>().result().await.unwrap_err(),
    ] {
        assert_eq!(refused.to_string(), r#"run "absent": it does not exist; start it first"#);
    }
}

/// RUN-48.
async fn the_history_is_read_page_by_page(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let begun = tidelock.start("sleepy", "r", &7).version(1).outcome().await.unwrap();
    let again = stage.tidelock().await.start("sleepy", "r", &7).version(1).outcome().await.unwrap();
    assert!(begun.is_new && !again.is_new);
    for nth in 0..4 {
        begun.run.signal("poke", &nth).await.unwrap();
    }
    let (mut kinds, mut after) = (Vec::new(), None);
    loop {
        let page = again.run.timeline(after, 2).await.unwrap();
        assert!(
            page.entries.len() <= 2 && page.entries.iter().all(|entry| Some(entry.version) > after)
        );
        kinds.extend(page.entries.into_iter().map(|entry| entry.kind));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(kinds, ["started", "signalled", "signalled", "signalled", "signalled"]);
    let absent = tidelock.runs().run("absent").timeline(None, 2).await;
    assert!(matches!(absent, Err(RunError::NoRun { .. })));
}
