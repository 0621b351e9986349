//! Whoever holds commits up is named.

use std::time::{Duration, Instant};

use tidelock_store::{Commit, ExpectedVersion, NewEvent, Store, StreamName};
use tidelock_store_postgres::tokio_postgres::{self, Client, NoTls};
use tidelock_store_postgres::{HeldUp, PostgresOptions, PostgresStore, SchemaName};

async fn open(schema: &str) -> PostgresStore {
    let schema = SchemaName::new(format!("{schema}_{}", std::process::id())).expect("a good name");
    let options = PostgresOptions { schema, ..PostgresOptions::default() };
    PostgresStore::open_with(&tidelock_test_postgres::shared_url().expect("a server"), options)
        .await
        .expect("the store opens")
}

async fn outsider() -> Client {
    let url = tidelock_test_postgres::shared_url().expect("a server");
    let (client, connection) = tokio_postgres::connect(&format!("{url}?application_name=visitor"), NoTls)
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
    Commit::new().append(&StreamName::new(stream).expect("a good name"), ExpectedVersion::Any, [event])
}

async fn until_held_up(store: &PostgresStore) -> HeldUp {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(held_up) = store.held_up().await.expect("an answer") {
            return held_up;
        }
        assert!(Instant::now() < deadline, "nobody is named");
        tokio::task::yield_now().await;
    }
}

/// Schedule 3: the session is named, and once it ends, everything goes on.
#[tokio::test]
async fn a_transaction_left_open_on_the_gate_is_named_until_it_ends() {
    let store = open("held_gate").await;
    let visitor = outsider().await;
    assert_eq!(store.held_up().await.unwrap(), None);
    let schema = format!("held_gate_{}", std::process::id());
    visitor.batch_execute(&format!("BEGIN; SELECT FROM {schema}.gate FOR UPDATE")).await.unwrap();

    let (committing, others) = (store.clone(), store.clone());
    let first = tokio::spawn(async move { committing.commit(note("a")).await });
    let held_up = until_held_up(&store).await;
    let second = tokio::spawn(async move { others.commit(note("b")).await });

    assert_eq!(held_up.session, session_of(&visitor).await);
    assert_eq!(held_up.application.as_deref(), Some("visitor"));
    assert_eq!(held_up.state.as_deref(), Some("idle in transaction"));
    assert!(held_up.commits_waiting >= 1 && held_up.sessions_waiting >= 1, "{held_up:?}");
    visitor.batch_execute("ROLLBACK").await.unwrap();
    first.await.unwrap().unwrap().committed().unwrap();
    second.await.unwrap().unwrap().committed().unwrap();
    assert_eq!(store.held_up().await.unwrap(), None);
}

/// Schedule 3: `idle_in_transaction_session_timeout` ends what nobody ends.
#[tokio::test]
async fn a_transaction_that_nobody_ends_is_ended_by_the_servers_timeout() {
    let store = open("held_timeout").await;
    let visitor = outsider().await;
    let schema = format!("held_timeout_{}", std::process::id());
    let sql = format!(
        "SET idle_in_transaction_session_timeout = '300ms'; BEGIN; SELECT FROM {schema}.gate FOR UPDATE"
    );
    visitor.batch_execute(&sql).await.unwrap();
    store.commit(note("a")).await.unwrap().committed().unwrap();
    assert!(visitor.batch_execute("COMMIT").await.is_err(), "the server has ended it");
}

/// Schedule 3: an unrelated transaction holds nothing back, whether it has written or not.
#[tokio::test]
async fn an_unrelated_transaction_left_open_holds_nothing_up() {
    let store = open("held_nothing").await;
    let visitor = outsider().await;
    let table = format!("unrelated_{}", std::process::id());
    let sql = format!("CREATE TABLE {table} (n int); BEGIN; INSERT INTO {table} VALUES (1)");
    visitor.batch_execute(&sql).await.unwrap();
    let committed = store.commit(note("a")).await.unwrap().committed().unwrap();
    let page =
        store.read_feed(tidelock_store::FeedQuery::after(tidelock_store::Position::START)).await.unwrap();
    assert_eq!(
        page.events.last().map(|event| event.position),
        committed.appends[0].positions.map(|(_, last)| last)
    );
    assert_eq!(store.held_up().await.unwrap(), None);
}
