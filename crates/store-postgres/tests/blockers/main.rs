//! Blocking sessions are reported: those that hold up commits or the feed.

mod log;

use std::time::{Duration, Instant};

use tidelock_store::{Commit, ExpectedVersion, FeedQuery, NewEvent, Position, Store, StreamName};
use tidelock_store_postgres::tokio_postgres::{self, Client, NoTls};
use tidelock_store_postgres::{Blockers, PostgresOptions, PostgresStore, SchemaName};

use log::Log;

async fn open(schema: &str) -> PostgresStore {
    let schema = SchemaName::new(format!("{schema}_{}", std::process::id())).expect("a good name");
    let options = PostgresOptions { schema, ..PostgresOptions::default() };
    PostgresStore::open_with(&tidelock_test_postgres::shared_url().expect("a server"), options)
        .await
        .expect("the store opens")
}

async fn outsider() -> Client {
    let url = tidelock_test_postgres::shared_url().expect("a server");
    let (client, connection) =
        tokio_postgres::connect(&format!("{url}?application_name=visitor"), NoTls)
            .await
            .expect("a connection");
    tokio::spawn(connection);
    client
}

async fn session_of(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.expect("an answer").get(0)
}

fn note(stream: &str) -> Commit {
    let event = NewEvent::of("noted", &1).expect("an event");
    Commit::new().append(
        &StreamName::new(stream).expect("a good name"),
        ExpectedVersion::Any,
        [event],
    )
}

/// Polls until a blocker is reported.
async fn until_seen<T>(store: &PostgresStore, what: impl Fn(Blockers) -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(seen) = what(store.blockers().await.expect("an answer")) {
            return seen;
        }
        assert!(Instant::now() < deadline, "no session is named");
        tokio::task::yield_now().await;
    }
}

async fn assert_nothing_held_up(store: &PostgresStore) {
    assert_eq!(store.blockers().await.expect("an answer"), Blockers::default());
}

async fn feed(store: &PostgresStore) -> usize {
    store.read_feed(FeedQuery::after(Position::START)).await.expect("a page").events.len()
}

/// Leaves a transaction open in which an event was appended.
fn append_and_stay(schema: &str) -> String {
    let schema = format!("{schema}_{}", std::process::id());
    format!(
        "BEGIN; SELECT {schema}.append_one('slow', -1, gen_random_uuid(), 'noted', '1', '{{}}')"
    )
}

/// Schedule 3: the session is reported, and once it ends, everything continues.
#[tokio::test]
async fn a_transaction_left_open_on_the_log_is_named_until_it_ends() {
    let store = open("held_log").await;
    let visitor = outsider().await;
    assert_nothing_held_up(&store).await;
    let schema = format!("held_log_{}", std::process::id());
    let lock = format!("BEGIN; LOCK TABLE {schema}.events IN SHARE MODE");
    visitor.batch_execute(&lock).await.unwrap();

    let (committing, others) = (store.clone(), store.clone());
    let first = tokio::spawn(async move { committing.commit(note("a")).await });
    let held = until_seen(&store, |held_up| held_up.commits).await;
    let second = tokio::spawn(async move { others.commit(note("b")).await });

    assert_eq!(held.by.session, session_of(&visitor).await);
    assert_eq!(held.by.application.as_deref(), Some("visitor"));
    assert_eq!(held.by.state.as_deref(), Some("idle in transaction"));
    assert!(held.commits_waiting >= 1 && held.sessions_waiting >= 1, "{held:?}");
    visitor.batch_execute("ROLLBACK").await.unwrap();
    first.await.unwrap().unwrap().committed().unwrap();
    second.await.unwrap().unwrap().committed().unwrap();
    assert_nothing_held_up(&store).await;
}

/// Schedule 3: commits succeed, the feed stands still, and its lag and the blocking session are
/// reported.
#[tokio::test]
async fn a_transaction_left_open_after_an_append_is_named_until_it_ends() {
    let store = open("held_feed").await;
    let visitor = outsider().await;
    visitor.batch_execute(&append_and_stay("held_feed")).await.unwrap();
    store.commit(note("a")).await.unwrap().committed().unwrap();
    store.commit(note("b")).await.unwrap().committed().unwrap();
    assert_eq!(feed(&store).await, 0);

    let held_up = store.blockers().await.unwrap();
    assert_eq!(held_up.commits, None);
    let held = held_up.feed.expect("the feed is held up");
    assert_eq!((held.by.session, held.behind), (session_of(&visitor).await, 3), "{held:?}");
    assert_eq!(held.by.application.as_deref(), Some("visitor"));
    assert_eq!(held.by.state.as_deref(), Some("idle in transaction"));
    let longer = |seen: Blockers| seen.feed.filter(|feed| feed.standing_for > held.standing_for);
    assert!(until_seen(&store, longer).await.by.open_for > held.by.open_for);

    visitor.batch_execute("COMMIT").await.unwrap();
    assert_nothing_held_up(&store).await;
    assert_eq!(feed(&store).await, 3);
}

/// Schedule 3: what waits for a second is logged by the store itself, with the session; and as long
/// as it lasts, even if nothing is committed any more.
#[tokio::test]
async fn what_is_held_up_for_long_is_logged_with_the_session() {
    Log::listen();
    let store = open("held_logged").await;
    let (on_feed, on_commits) = (outsider().await, outsider().await);
    on_feed.batch_execute(&append_and_stay("held_logged")).await.unwrap();
    store.commit(note("a")).await.unwrap().committed().unwrap();
    let feed = format!("session: {},", session_of(&on_feed).await);
    for _ in 0..2 {
        Log::until_said("the feed is held up by a database session", &feed).await;
    }

    let schema = format!("held_logged_{}", std::process::id());
    let lock = format!("BEGIN; SELECT FROM {schema}.streams WHERE name = 'a' FOR UPDATE");
    on_commits.batch_execute(&lock).await.unwrap();
    let behind = tokio::spawn(async move { store.commit(note("a")).await });
    let commits = format!("session: {},", session_of(&on_commits).await);
    Log::until_said("commits are held up by a database session", &commits).await;
    on_commits.batch_execute("ROLLBACK").await.unwrap();
    behind.await.unwrap().unwrap().committed().unwrap();
}

/// Schedule 3: `idle_in_transaction_session_timeout` ends an abandoned transaction.
#[tokio::test]
async fn an_abandoned_transaction_is_ended_by_the_servers_timeout() {
    let store = open("held_timeout").await;
    let visitor = outsider().await;
    let stay = append_and_stay("held_timeout");
    visitor
        .batch_execute(&format!("SET idle_in_transaction_session_timeout = '300ms'; {stay}"))
        .await
        .unwrap();
    store.commit(note("a")).await.unwrap().committed().unwrap();
    until_seen(&store, |held_up| held_up.feed.is_none().then_some(())).await;
    assert_eq!(feed(&store).await, 1, "the other was never there");
    assert!(visitor.batch_execute("COMMIT").await.is_err(), "the server has ended it");
}

/// Schedule 3: an unrelated transaction holds nothing up, whether it has written or not.
#[tokio::test]
async fn an_unrelated_transaction_left_open_holds_nothing_up() {
    let store = open("held_nothing").await;
    let visitor = outsider().await;
    let table = format!("unrelated_{}", std::process::id());
    let sql = format!("CREATE TABLE {table} (n int); BEGIN; INSERT INTO {table} VALUES (1)");
    visitor.batch_execute(&sql).await.unwrap();
    store.commit(note("a")).await.unwrap().committed().unwrap();
    assert_eq!(feed(&store).await, 1);
    assert_nothing_held_up(&store).await;
}
