//! Skipping the one event that a target is blocked on.

use std::time::Duration;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::reactions::{ReactionFilter, ResetEffects, SkipOutcome, SkippedEvent, TargetInfo};
use tidelock::store::{RecordKey, StoreExt, StoredEvent};
use tidelock_test_stage::{
    DyingStore, Observed, Running, TestStore, append, brisk, in_memory, note, on_every_store, until,
};

use crate::stage::{target, until_blocked, until_quiet};

on_every_store!(
    a_skipped_event_is_recorded_and_later_ones_are_handled,
    only_the_event_that_was_seen_is_skipped,
    a_batch_stops_at_the_event_that_fails,
    an_event_without_a_route_is_skipped,
    a_reset_handles_a_skipped_event_again,
);

/// How long the record of a skipped event is kept.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Follows the letters, and fails on one with a poison; other events are not for it.
fn letters(tidelock: &Tidelock, seen: &Observed) -> tidelock::AppBuilder {
    let seen = seen.clone();
    let source = on_any().of_types(["letter"]);
    let app = tidelock.app().worker(brisk("one"));
    app.reaction("mail", source, move |event: StoredEvent, ctx: ReactionCtx| {
        let seen = seen.clone();
        async move {
            if event.payload.as_str().contains("poison") {
                return Err(HandlerError::fatal("no such address"));
            }
            ctx.add(format!("mailed/{}", event.stream), 1, ..)?;
            seen.note(event.version.to_string());
            Ok(())
        }
    })
}

async fn post(tidelock: &Tidelock, stream: &str, texts: &[&str]) {
    for text in texts {
        append(tidelock, stream, "letter", &json!({ "text": text })).await;
    }
}

async fn skipped(tidelock: &Tidelock) -> Vec<SkippedEvent> {
    tidelock.reactions().skipped(None).all().await.unwrap()
}

async fn skip(tidelock: &Tidelock, seen: &TargetInfo) -> SkipOutcome {
    tidelock.reactions().skip(seen, "a test letter").await.unwrap()
}

/// REACT-28. Between the place of the target and the poison are events that are not for it.
async fn a_skipped_event_is_recorded_and_later_ones_are_handled(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    post(&tidelock, "anna", &["a"]).await;
    note(&tidelock, "anna", "not a letter").await;
    let poison = append(&tidelock, "anna", "letter", &json!({ "text": "poison" })).await;
    post(&tidelock, "anna", &["b", "c"]).await;
    let running = Running::start(letters(&tidelock, &seen));
    let blocked = until_blocked(&tidelock, "mail", "anna").await;
    assert_eq!(skip(&tidelock, &blocked).await, SkipOutcome::Requested);
    until_quiet(&tidelock, "mail").await;
    running.stop().await;

    assert_eq!(seen.lines(), ["1", "4", "5"]);
    let skipped = skipped(&tidelock).await;
    let [one] = &skipped[..] else { panic!("one event was skipped: {skipped:?}") };
    assert_eq!((one.reaction.as_str(), one.target.as_str()), ("mail", "anna"));
    assert_eq!((one.event, one.position), (poison.id, poison.position));
    assert_eq!((one.stream.as_str(), one.version), ("anna", poison.version));
    assert_eq!(one.reason, "a test letter");
    assert_eq!(one.error.as_deref(), Some("no such address"));
    assert!(tidelock.reactions().skipped(Some("mial")).all().await.unwrap().is_empty());
    let record = RecordKey::new(format!("~skipped/mail/{:020}", one.position)).unwrap();
    let record = tidelock.store().get_one(&record).await.unwrap().into_live().unwrap();
    let kept = record.expires_at.unwrap().since(one.at);
    assert!(kept.abs_diff(YEAR) < Duration::from_secs(60), "{kept:?}");
    let left =
        tidelock.store().get_one(&RecordKey::new("~rebuild/mail/anna").unwrap()).await.unwrap();
    assert!(left.live().is_none(), "the decision was carried out");
}

/// REACT-28. The same call again, a target that goes on, and one that is not blocked.
async fn only_the_event_that_was_seen_is_skipped(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    post(&tidelock, "anna", &["poison", "poison", "a"]).await;
    let running = Running::start(letters(&tidelock, &seen));
    let first = until_blocked(&tidelock, "mail", "anna").await;
    let refused = tidelock.reactions().skip(&first, " ").await.unwrap_err();
    assert!(refused.to_string().contains("reason"), "{refused}");
    assert_eq!(skip(&tidelock, &first).await, SkipOutcome::Requested);
    until("the second poison blocks it", async || {
        target(&tidelock, "mail", "anna").await.is_some_and(|it| it.blocked && it.at > first.at)
    })
    .await;
    assert_eq!(skip(&tidelock, &first).await, SkipOutcome::Moved);
    let second = target(&tidelock, "mail", "anna").await.unwrap();
    assert!(second.blocked);
    assert_eq!(skip(&tidelock, &second).await, SkipOutcome::Requested);
    until_quiet(&tidelock, "mail").await;
    let idle = target(&tidelock, "mail", "anna").await.unwrap();
    assert_eq!(skip(&tidelock, &idle).await, SkipOutcome::NotBlocked);
    running.stop().await;
    assert_eq!(seen.lines(), ["3"]);
    let versions: Vec<u64> = skipped(&tidelock).await.iter().map(|it| it.version.get()).collect();
    assert_eq!(versions, [1, 2]);
}

/// REACT-28. One attempt is enough to find it, and what was handled before it is kept.
async fn a_batch_stops_at_the_event_that_fails(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    post(&tidelock, "anna", &["a", "b", "poison", "c", "d", "e"]).await;
    let batch = async |events: Vec<StoredEvent>, ctx: ReactionCtx| {
        let poisoned = events.iter().any(|event| event.payload.as_str().contains("poison"));
        ctx.add("mailed/anna", events.len() as i64, ..)?;
        if poisoned { Err(HandlerError::again("no such address")) } else { Ok(()) }
    };
    let source = on_any().of_types(["letter"]).retry(Retry::attempts(1));
    let app = tidelock.app().worker(brisk("one"));
    let app = app.batch_reaction("mail", source, 100, batch);
    let running = Running::start(app);
    let blocked = until_blocked(&tidelock, "mail", "anna").await;
    assert_eq!(blocked.at.get(), 2, "the poison is the next event");
    let mailed = async || {
        let slot = tidelock.store().get_one(&RecordKey::new("mailed/anna").unwrap()).await.unwrap();
        slot.live().unwrap().value.to::<i64>().unwrap()
    };
    assert_eq!(mailed().await, 2);
    assert_eq!(skip(&tidelock, &blocked).await, SkipOutcome::Requested);
    until_quiet(&tidelock, "mail").await;
    running.stop().await;
    assert_eq!(mailed().await, 5);
    assert_eq!(skipped(&tidelock).await[0].version.get(), 3);
}

/// REACT-28, REACT-18.
async fn an_event_without_a_route_is_skipped(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let noted = seen.clone();
    let source = on_any().retry(Retry::attempts(1)).to(|event: &StoredEvent| {
        match event.payload.as_str().contains("poison") {
            true => Err(HandlerError::fatal("no such town")),
            false => Ok("town".to_owned()),
        }
    });
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction("tour", source, move |event: StoredEvent, _| {
        noted.note(event.stream.as_str());
        async { Ok(()) }
    });
    post(&tidelock, "anna", &["poison"]).await;
    post(&tidelock, "bert", &["a"]).await;
    let running = Running::start(app);
    seen.until(1).await;
    let blocked = ReactionFilter::named("tour").blocked(true);
    let list = async || tidelock.reactions().list(&blocked).all().await.unwrap();
    until("it is blocked", async || list().await.len() == 1).await;
    let unrouted = list().await.remove(0);
    assert!(unrouted.unrouted);
    assert_eq!(skip(&tidelock, &unrouted).await, SkipOutcome::Requested);
    until_quiet(&tidelock, "tour").await;
    running.stop().await;
    assert_eq!(seen.lines(), ["bert"]);
    let skipped = skipped(&tidelock).await;
    assert_eq!((skipped[0].stream.as_str(), skipped.len()), ("anna", 1));
    assert_eq!(skipped[0].error.as_deref(), Some("no such town"));
}

/// REACT-28, REACT-16. A decision that waits is gone with the reset, and one that was carried out
/// counts no more.
async fn a_reset_handles_a_skipped_event_again(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    post(&tidelock, "anna", &["a", "poison", "b"]).await;
    let running = Running::start(letters(&tidelock, &seen));
    let blocked = until_blocked(&tidelock, "mail", "anna").await;
    assert_eq!(skip(&tidelock, &blocked).await, SkipOutcome::Requested);
    seen.until(2).await;
    until_quiet(&tidelock, "mail").await;
    let mail = ReactionFilter::named("mail");
    tidelock.reactions().reset(&mail, ResetEffects::Keep).await.unwrap();
    let blocked = until_blocked(&tidelock, "mail", "anna").await;
    assert_eq!(blocked.at.get(), 1);
    assert_eq!(skip(&tidelock, &blocked).await, SkipOutcome::Requested);
    seen.until(4).await;
    until_quiet(&tidelock, "mail").await;
    running.stop().await;
    assert_eq!(seen.lines(), ["1", "3", "1", "3"]);
    assert_eq!(skipped(&tidelock).await.len(), 1, "the same event");
}

/// REACT-28. An operator's process dies at any call of a skip: the same call again finishes it, and
/// one event is skipped.
#[test]
fn a_skip_that_dies_at_any_call_is_finished_by_the_same_call() {
    for (calls, last_words) in (0..8).flat_map(|calls| [(calls, false), (calls, true)]) {
        in_memory(async |stage: TestStore| skip_twice(&stage, calls, last_words).await);
    }
}

async fn skip_twice(stage: &TestStore, calls: i64, last_words: bool) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    post(&tidelock, "anna", &["poison", "a"]).await;
    let running = Running::start(letters(&tidelock, &seen));
    let blocked = until_blocked(&tidelock, "mail", "anna").await;
    let store = DyingStore::over(stage.store().await, calls, last_words);
    let mortal = Tidelock::over(store.clone());
    let (first, target) = (mortal.reactions(), blocked.clone());
    let first = tokio::spawn(async move { first.skip(&target, "a test letter").await });
    until("it is dead or done", async || store.is_dead() || first.is_finished()).await;
    first.abort();
    let _done_or_not_needed = skip(&tidelock, &blocked).await;
    until("the later letter is handled", async || seen.lines() == ["2"]).await;
    until_quiet(&tidelock, "mail").await;
    running.stop().await;
    assert_eq!(skipped(&tidelock).await.len(), 1, "{calls} calls, {last_words}");
}
