//! Closing waits for reactions.

use std::sync::Arc;
use std::time::Duration;

use tidelock::closing::{CloseError, discard};
use tidelock::prelude::*;
use tidelock::store::{NewEvent, StoreExt, StoredEvent, StreamName, StreamQuery, StreamState};
use tokio::sync::Semaphore;

use crate::account::{Shelf, paid_into, pay};
use tidelock_test_stage::{Observed, PATIENCE, Running, TestStore, brisk, note, on_every_store};

use crate::stage::{until_blocked, until_quiet};

on_every_store!(
    a_close_waits_until_reactions_are_done,
    a_close_is_refused_while_a_handler_works_and_touches_nothing,
    a_computed_target_that_has_not_followed_its_link_holds_up_the_close,
    a_blocked_reaction_is_named_and_can_be_ignored,
    every_reaction_to_ignore_is_named,
    an_unserved_reaction_is_named,
    a_reaction_that_appends_to_a_closed_stream_is_refused,
    a_reaction_that_loaded_before_the_close_is_refused_after_it,
);

async fn is_open(tidelock: &Tidelock) -> bool {
    let stream = StreamName::new("account-7").unwrap();
    let page = tidelock.store().full_page(StreamQuery::forward(&stream)).await.unwrap();
    matches!(page.state, StreamState::Open(_))
}

/// An application whose handler waits for permits.
fn app(tidelock: &Tidelock, computed: bool, permits: &Arc<Semaphore>, seen: &Observed) -> Running {
    let (permits, seen) = (permits.clone(), seen.clone());
    let source = match computed {
        true => on_any()
            .in_streams("account-")
            .to(|event: &StoredEvent| format!("all of {}", event.event_type)),
        false => on_any().in_streams("account-"),
    };
    Running::start(tidelock.app().worker(brisk("teller")).reaction(
        "mail",
        source,
        move |event: StoredEvent, _| {
            let (permits, seen) = (permits.clone(), seen.clone());
            async move {
                seen.note(format!("begun {}", event.version));
                permits.acquire().await.unwrap().forget();
                seen.note(format!("done {}", event.version));
                Ok(())
            }
        },
    ))
}

/// CLOSE-2.
async fn a_close_waits_until_reactions_are_done(stage: TestStore) {
    let (tidelock, shelf, seen) = (stage.tidelock().await, Shelf::default(), Observed::default());
    let account = paid_into(&tidelock, 3).await;
    let permits = Arc::new(Semaphore::new(0));
    let running = app(&tidelock, false, &permits, &seen);
    seen.until(1).await;
    let closing = tokio::spawn(account.archive_to(shelf.archive()).within(PATIENCE).close());
    assert_eq!(shelf.versions().len(), 0);
    permits.add_permits(3);
    closing.await.unwrap().unwrap();
    assert_eq!(seen.lines().last().map(String::as_str), Some("done 3"));
    assert_eq!(shelf.versions(), [1, 2, 3]);
    running.stop().await;
}

/// Schedule 31. CLOSE-2.
async fn a_close_is_refused_while_a_handler_works_and_touches_nothing(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let account = paid_into(&tidelock, 1).await;
    let permits = Arc::new(Semaphore::new(0));
    let running = app(&tidelock, false, &permits, &seen);
    seen.until(1).await;
    let refused = account.archive_to(discard).within(Duration::ZERO).close().await.unwrap_err();
    assert!(matches!(&refused, CloseError::Unfinished { .. }), "{refused}");
    assert!(
        refused.to_string().contains(r#"reaction "mail" is not done with target "account-7""#),
        "{refused}"
    );
    assert!(is_open(&tidelock).await);
    account.execute(pay(1)).await.unwrap();
    permits.add_permits(2);
    account.archive_to(discard).within(PATIENCE).close().await.unwrap();
    assert_eq!(seen.lines().last().map(String::as_str), Some("done 2"));
    running.stop().await;
}

/// CLOSE-2.
async fn a_computed_target_that_has_not_followed_its_link_holds_up_the_close(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let account = paid_into(&tidelock, 1).await;
    let permits = Arc::new(Semaphore::new(0));
    let running = app(&tidelock, true, &permits, &seen);
    seen.until(1).await;
    let refused = account.archive_to(discard).within(Duration::ZERO).close().await.unwrap_err();
    assert!(refused.to_string().contains(r#"is not done with target "all of paid""#), "{refused}");
    permits.add_permits(1);
    until_quiet(&tidelock, "mail").await;
    account.archive_to(discard).within(PATIENCE).close().await.unwrap();
    running.stop().await;
}

/// CLOSE-2.
async fn a_blocked_reaction_is_named_and_can_be_ignored(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let account = paid_into(&tidelock, 1).await;
    let poison = on_any().in_streams("account-").retry(Retry::never());
    let running = Running::start(tidelock.app().worker(brisk("teller")).reaction(
        "mail",
        poison,
        |_: StoredEvent, _| async { Err(HandlerError::again("no stamps")) },
    ));
    until_blocked(&tidelock, "mail", "account-7").await;
    let refused = account.archive_to(discard).within(PATIENCE).close().await.unwrap_err();
    assert!(
        refused.to_string().contains(r#"blocked at target "account-7": no stamps"#),
        "{refused}"
    );
    assert!(is_open(&tidelock).await);
    account.archive_to(discard).ignore_reaction("mail").close().await.unwrap();
    assert!(!is_open(&tidelock).await);
    running.stop().await;
}

/// CLOSE-2. Of two reactions, the one that is not named holds up the close.
async fn every_reaction_to_ignore_is_named(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let account = paid_into(&tidelock, 1).await;
    let poison = || on_any().in_streams("account-").retry(Retry::never());
    let fails = |_: StoredEvent, _: ReactionCtx| async { Err(HandlerError::again("no stamps")) };
    let app = tidelock.app().worker(brisk("teller"));
    let running =
        Running::start(app.reaction("mail", poison(), fails).reaction("fax", poison(), fails));
    until_blocked(&tidelock, "mail", "account-7").await;
    until_blocked(&tidelock, "fax", "account-7").await;
    for (ignored, left) in [("mail", "fax"), ("fax", "mail")] {
        let close = account.archive_to(discard).within(PATIENCE).ignore_reaction(ignored).close();
        let refused = close.await.unwrap_err().to_string();
        assert!(refused.contains(&format!("reaction {left:?}")), "{refused}");
        assert!(is_open(&tidelock).await);
    }
    let books = account.archive_to(discard).ignore_reaction("mail").ignore_reaction("fax");
    books.close().await.unwrap();
    assert!(!is_open(&tidelock).await);
    running.stop().await;
}

/// CLOSE-2.
async fn an_unserved_reaction_is_named(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let account = paid_into(&tidelock, 1).await;
    let permits = Arc::new(Semaphore::new(100));
    let running = app(&tidelock, false, &permits, &seen);
    seen.until(2).await;
    running.stop().await;
    account.execute(pay(1)).await.unwrap();
    let refused = account.archive_to(discard).within(Duration::ZERO).close().await.unwrap_err();
    assert!(refused.to_string().contains("is a process running it?"), "{refused}");
    assert!(is_open(&tidelock).await);
}

/// Schedule 84. The reaction has decided on the state before the close, and commits after it: it is
/// refused, and the archive has every acknowledged event.
async fn a_reaction_that_loaded_before_the_close_is_refused_after_it(stage: TestStore) {
    let (tidelock, shelf, seen) = (stage.tidelock().await, Shelf::default(), Observed::default());
    let account = paid_into(&stage.tidelock().await, 2).await;
    let state = (seen.clone(), Arc::new(Semaphore::new(0)));
    let go = state.1.clone();
    let transfers = on_any().in_streams("transfer-").retry(Retry::never());
    let running = Running::start(tidelock.app().worker(brisk("teller")).reaction(
        "receive",
        transfers,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let (seen, go) = state.clone();
            async move {
                ctx.execute(&ctx.tidelock().aggregate("7"), pay(1))
                    .await
                    .map_err(|error| HandlerError::fatal(error.to_string()))?;
                seen.note("decided");
                go.acquire().await.map_err(HandlerError::fatal)?.forget();
                Ok(())
            }
        },
    ));
    note(&tidelock, "transfer-1", "in time, it seems").await;
    seen.until(1).await;
    account.archive_to(shelf.archive()).close().await.unwrap();
    go.add_permits(1);
    let blocked = until_blocked(&tidelock, "receive", "transfer-1").await;
    let error = blocked.error.unwrap();
    assert!(
        error.contains("account-7") && error.contains("closed"),
        "the operator is told: {error}"
    );
    assert_eq!(shelf.versions(), [1, 2], "what was acknowledged, and nothing else");
    let left = tidelock.store().read_whole_stream(account.stream().unwrap()).await.unwrap();
    assert_eq!(left.len(), 0);
    running.stop().await;
}

/// Schedule 84.
async fn a_reaction_that_appends_to_a_closed_stream_is_refused(stage: TestStore) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 2).await;
    account.archive_to(shelf.archive()).close().await.unwrap();
    let elsewhere = on_any().in_streams("transfer-").retry(Retry::never());
    let running = Running::start(tidelock.app().worker(brisk("teller")).reaction(
        "receive",
        elsewhere,
        |_: StoredEvent, ctx: ReactionCtx| async move {
            let paid = NewEvent::of("paid", &serde_json::json!({ "amount": 1 }))?;
            Ok(ctx.append_to("account-7", ExpectedVersion::Exists, [paid])?)
        },
    ));
    note(&tidelock, "transfer-1", "to a closed account").await;
    let blocked = until_blocked(&tidelock, "receive", "transfer-1").await;
    assert!(blocked.error.unwrap().contains("closed"), "the operator is told");
    assert_eq!(shelf.versions(), [1, 2]);
    running.stop().await;
}
