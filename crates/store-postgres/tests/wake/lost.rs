//! The listening connection is lost, and reconnects.

use std::time::Duration;

use tidelock_store::{ChangeHint, FeedQuery, Position, Store, Topic};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Proxy;

use crate::ground::{Ground, NEVER, Plain, append, committed, feed_after, queue, said, soon, wake};

/// The session that listens or notifies; there is one for each handle.
const LISTENS: &str =
    "application_name = '@' AND (query LIKE 'LISTEN %' OR query LIKE '%pg_notify%')";

/// Ends the session that listens. The other handle of the test has none.
async fn cut_the_listener(plain: &Plain) {
    let ended: Vec<bool> = plain
        .all(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LISTENS}"))
        .await;
    assert_eq!(ended, [true]);
}

/// Two handles: one that listens and hardly polls, and one that notifies only when asked to.
async fn listener_and_notifier(ground: &Ground) -> (PostgresStore, PostgresStore) {
    let listener = ground.open_with(|options| options.poll_interval = NEVER).await;
    let teller =
        ground.open_with(|options| options.notify = tidelock_store_postgres::Notify::Never).await;
    committed(&teller, append("warm", "warm")).await;
    (listener, teller)
}

/// Schedule 14: what was missed while there was no listener is made up for on reconnect, and after
/// that notifications come as before.
#[tokio::test]
async fn a_lost_connection_reconnects_and_listens_again() {
    let ground = Ground::shared();
    let (listener, teller) = listener_and_notifier(&ground).await;
    let plain = ground.connect().await;
    let mut signal = listener.signal(Topic::Queue(queue()));
    for _ in 0..3 {
        cut_the_listener(&plain).await;
        committed(&teller, wake("letter")).await;
        soon("the signal of a new connection", signal.wait()).await;
        plain
            .until(
                "a session listens",
                &format!("SELECT count(*) = 1 FROM pg_stat_activity WHERE {LISTENS}"),
            )
            .await;
        let channel = plain.one::<String>("SELECT 'tidelock_@'").await;
        plain.run(&format!("SELECT pg_notify('{channel}', E'stranger\\nqueue mail')")).await;
        soon("the signal of a notification", signal.wait()).await;
    }
}

/// Schedule 15. LOG-7: a reader has read to the end and waits; the connection that would notify it
/// is not there yet when the event is committed.
#[tokio::test]
async fn what_is_committed_between_the_last_read_and_the_listening_is_delivered() {
    let ground = Ground::shared();
    let (listener, teller) = listener_and_notifier(&ground).await;
    let (plain, holder) = (ground.connect().await, ground.connect().await);
    let mut signal = listener.signal(Topic::Log);
    let end = read_to_the_end(&listener, &mut signal).await;
    // A new connection reads this table before it listens.
    holder.run("BEGIN; LOCK TABLE tidelock.epochs IN ACCESS EXCLUSIVE MODE").await;
    cut_the_listener(&plain).await;
    plain.until_blocked(1).await;
    committed(&teller, append("between", "between")).await;
    holder.run("COMMIT").await;

    soon("the signal", signal.wait()).await;
    assert_eq!(said(&feed_after(&listener, end).await), ["between"]);
}

/// Reads as a follower does: whatever was signalled before is read.
async fn read_to_the_end(store: &PostgresStore, signal: &mut ChangeHint) -> Position {
    let page = store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert!(page.at_end);
    // Signals still in flight from opening the handle.
    while tokio::time::timeout(Duration::from_millis(50), signal.wait()).await.is_ok() {}
    page.next
}

/// Schedule 14: there is no connection to the server at all, and waiters are woken to poll all the
/// same.
#[tokio::test]
async fn a_handle_without_any_connection_goes_on_polling() {
    let ground = Ground::shared();
    let proxy = Proxy::to(ground.port()).unwrap();
    let teller = ground.open().await;
    let ground = ground.through(proxy.port());
    let listener =
        ground.open_with(|options| options.poll_interval = Duration::from_millis(50)).await;
    let mut signal = listener.signal(Topic::Log);
    proxy.refuse();
    committed(&teller, append("a", "unheard")).await;
    for _ in 0..5 {
        soon("a poll", signal.wait()).await;
        listener.read_feed(FeedQuery::after(Position::START)).await.unwrap_err();
    }
    proxy.heal();
    soon("a poll", signal.wait()).await;
    let events = soon("the feed", feed_after(&listener, Position::START)).await;
    assert_eq!(said(&events), ["unheard"]);
}
