//! Waits for a reaction: reading what a handler wrote about an event.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidelock::ErrorKind;
use tidelock::prelude::*;
use tidelock::store::{RecordKey, StoreExt, StoredEvent};
use tidelock_test_stage::{
    Observed, Running, TestStore, append, brisk, note, on_every_store, text, until,
};
use tokio::sync::Semaphore;

use crate::stage::{target, until_blocked};

on_every_store!(
    a_wait_ends_when_the_event_is_handled_and_not_before,
    a_wait_for_one_computed_target_does_not_wait_for_another,
    a_wait_that_cannot_end_says_why,
);

const LONG: Duration = Duration::from_secs(60);

/// REACT-27.
async fn a_wait_ends_when_the_event_is_handled_and_not_before(stage: TestStore) {
    let (tidelock, seen, gate) =
        (stage.tidelock().await, Observed::default(), Arc::new(Semaphore::new(0)));
    let (noted, opened) = (seen.clone(), gate.clone());
    let handler = move |event: StoredEvent, ctx: ReactionCtx| {
        let (noted, opened) = (noted.clone(), opened.clone());
        async move {
            noted.note(text(&event));
            opened.acquire().await.unwrap().forget();
            Ok(ctx.put(format!("copy/{}", text(&event)), &true)?)
        }
    };
    let source = on_any().in_streams("diary");
    let running =
        Running::start(tidelock.app().worker(brisk("one")).reaction("copy", source, handler));
    note(&tidelock, "diary", "first").await;
    let second = note(&tidelock, "diary", "second").await;
    let other = note(&tidelock, "other", "not its own").await;
    let reactions = tidelock.reactions();
    seen.until(1).await;

    reactions.wait_for("copy", other.position).within(LONG).await.unwrap();
    let late = reactions.wait_for("copy", second.position).within(Duration::ZERO).await;
    let late = late.unwrap_err();
    assert_eq!((late.kind(), late.is_retryable()), (ErrorKind::TimedOut, true));
    let copied = async {
        reactions.wait_for("copy", second.position).within(LONG).await.unwrap();
        let copy = RecordKey::new("copy/second").unwrap();
        tidelock.store().get_one(&copy).await.unwrap().into_live()
    };
    let opened = async {
        gate.add_permits(1);
        seen.until(2).await;
        gate.add_permits(1);
    };
    let (copied, ()) = tokio::join!(copied, opened);
    assert!(copied.is_some(), "the row is there when the wait is over");
    running.stop().await;
}

/// REACT-27.
async fn a_wait_for_one_computed_target_does_not_wait_for_another(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let source = on_any().to(|event: &StoredEvent| text(event));
    let handler = |event: StoredEvent, _| async move {
        match text(&event).as_str() {
            "stuck" => std::future::pending().await,
            _ => Ok(()),
        }
    };
    let running =
        Running::start(tidelock.app().worker(brisk("one")).reaction("track", source, handler));
    let stuck = append(&tidelock, "feed", "happened", &json!({ "text": "stuck" })).await;
    let free = append(&tidelock, "feed", "happened", &json!({ "text": "free" })).await;
    let wait = |event: &StoredEvent| tidelock.reactions().wait_for("track", event.position);
    let is_leased = async || {
        target(&tidelock, "track", "stuck").await.is_some_and(|target| target.holder.is_some())
    };
    until("the first event is being handled", is_leased).await;

    wait(&free).target("free").within(LONG).await.unwrap();
    // Events before it in its stream count too, unless a target is named.
    for late in [wait(&free), wait(&stuck), wait(&stuck).target("stuck")] {
        assert_eq!(late.within(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::TimedOut);
    }
    running.abandon();
}

/// REACT-27.
async fn a_wait_that_cannot_end_says_why(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let event = note(&tidelock, "diary", "x").await;
    let wait = |reaction: &str| tidelock.reactions().wait_for(reaction, event.position);
    assert_eq!(wait("refuse").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(wait("no/name").await.unwrap_err().kind(), ErrorKind::Invalid);

    let refuse = |_: StoredEvent, _| async { Err(HandlerError::fatal("never")) };
    let lost = on_any()
        .retry(Retry::attempts(1))
        .to(|_: &StoredEvent| Err::<Option<String>, _>(HandlerError::fatal("no destination")));
    let app = tidelock.app().worker(brisk("one")).reaction("refuse", on_any(), refuse);
    let running = Running::start(app.reaction("lost", lost, refuse));
    until_blocked(&tidelock, "refuse", "diary").await;
    let error = wait("refuse").within(LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.to_string().contains(r#"blocked at target "diary": never"#), "{error}");
    let is_lost = async || {
        let error = wait("lost").target("anywhere").within(Duration::ZERO).await.unwrap_err();
        error.kind() == ErrorKind::Failed && error.to_string().contains("no destination")
    };
    until("the event without a route is reported", is_lost).await;
    running.stop().await;
}
