//! A replaced primary that comes back: handles that know of its successor refuse it.

use tidelock_store::{
    ExpectedVersion, LeaseRequest, Position, Result, RetryAdvice, Store, StoreError,
    StoreErrorKind, WorkerName,
};
use tidelock_store_postgres::{PostgresOptions, PostgresStore};
use tidelock_test_postgres::Proxy;

use crate::careful::{LONG, note, read_after};
use crate::ground::{append, queue, stream};
use crate::pair::{Pair, url, wait_until};

/// Schedule 76. One handle is led to the old primary by its address; the other names both, and
/// finds only the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_was_replaced_is_refused_and_nothing_is_written_to_it() {
    let pair = Pair::asynchronous();
    let other_door = Proxy::to(pair.standby.port()).unwrap();
    let both = url(&[pair.primary.port(), other_door.port()]);
    let stores = [pair.open().await, PostgresStore::open(&both).await.unwrap()];
    note_by_all(&stores, "before").await;
    pair.wait_until_standby_has_all();
    pair.fail_over();
    note_by_all(&stores, "after").await;

    pair.primary.start_again().unwrap();
    note(
        &PostgresStore::open(&pair.primary.url()).await.unwrap(),
        "of a client that does not know",
    )
    .await;
    let untouched = contents(&pair);
    pair.proxy.aim(pair.primary.port());
    pair.proxy.cut();
    other_door.refuse();
    for store in &stores {
        assert_refused(store).await;
    }
    assert_eq!(contents(&pair), untouched);

    pair.proxy.aim(pair.standby.port());
    other_door.heal();
    note_by_all(&stores, "last").await;
    assert_eq!(read_after(&stores[0], Position::START).await.unwrap().len(), 3 * stores.len());
}

/// Schedule 76; COMMIT-5. The old primary was never down: some connections still lead to it, and
/// others no longer do.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_a_primary_that_was_replaced_are_given_up_once_that_is_known() {
    let pair = Pair::asynchronous();
    let store = pair.open().await;
    note(&store, "before").await;
    read_from_everywhere(&store).await;
    pair.wait_until_standby_has_all();
    pair.standby.promote().unwrap();
    pair.proxy.aim(pair.standby.port());
    end_connection_that_commits(&pair);

    note(&store, "after").await;
    for events in read_from_everywhere(&store).await {
        assert_eq!(events, 2, "what was acknowledged is there for every reader");
    }
}

/// The visible contents of the old primary's store, with the transactions that wrote them.
fn contents(pair: &Pair) -> String {
    let tables = ["meta", "epochs", "streams", "events", "records", "items", "commits"];
    let selects = tables.map(|table| format!("SELECT t.xmin, t.* FROM tidelock.{table} t;"));
    pair.says(&selects.concat())
}

async fn note_by_all(stores: &[PostgresStore], name: &str) {
    for store in stores {
        note(store, name).await;
    }
}

/// Checks that every kind of call is refused, with advice.
async fn assert_refused(store: &PostgresStore) {
    let guarded = append("never", "never").guard_stream(&stream("before"), ExpectedVersion::Any);
    let request = LeaseRequest::new(&queue(), &WorkerName::new("w").unwrap(), LONG, 1);
    let refusals = [
        refusal(async || store.commit(append("never", "never")).await).await,
        refusal(async || store.commit(guarded.clone()).await).await,
        refusal(async || store.lease(request.clone()).await).await,
        refusal(async || read_after(store, Position::START).await).await,
        refusal(async || store.begin().await).await,
    ];
    for refused in refusals {
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Rewound, RetryAdvice::Later),
            "{refused}"
        );
        assert!(refused.context().contains("take it out of the address"), "{refused}");
    }
}

/// Retries until the refusal says more than that a connection was lost.
async fn refusal<T>(mut ask: impl AsyncFnMut() -> Result<T>) -> StoreError {
    for _ in 1..10 {
        match ask().await {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => {}
            answered => return answered.map(drop).expect_err("this is refused"),
        }
    }
    panic!("there is no server")
}

/// How many events there are, read over each of the connections.
async fn read_from_everywhere(store: &PostgresStore) -> Vec<usize> {
    let mut counts = Vec::new();
    for _ in 0..PostgresOptions::default().readers {
        counts.push(read_after(store, Position::START).await.unwrap().len());
    }
    counts
}

fn end_connection_that_commits(pair: &Pair) {
    let those =
        "FROM pg_stat_activity WHERE query LIKE '%append_many(%' AND pid <> pg_backend_pid()";
    assert_eq!(pair.says(&format!("SELECT pg_terminate_backend(pid) {those}")), "t");
    wait_until("it is gone", || pair.says(&format!("SELECT count(*) {those}")) == "0");
}
