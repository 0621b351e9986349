//! A server that accepts requests and never answers, and callers that give up.

use std::future::ready;

use futures_util::future::join_all;
use tidelock_store::{RecordKey, RetryAdvice, Slot, Store, StoreErrorKind};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Server;

use crate::ground::{Ground, append, committed, soon};
use crate::stopped::Stopped;

/// The last query of a read.
const READ: &str = "%moment LEFT JOIN%";

async fn read(store: &PostgresStore) -> tidelock_store::Result<Vec<Slot>> {
    store.get(&[RecordKey::new("a").unwrap()]).await
}

/// Sends a request, and does not wait for the answer.
async fn give_up(store: &PostgresStore) {
    tokio::select! {
        biased;
        _ = read(store) => panic!("the session is stopped"),
        () = ready(()) => {}
    }
}

/// The driver keeps a request until it is answered. After a number of abandoned requests, callers
/// get an error instead; and once the server continues, so does everything.
#[tokio::test]
async fn callers_that_give_up_do_not_pile_up_requests() {
    let server = Server::start().unwrap();
    let ground = Ground::on(&server.url());
    let plain = ground.connect().await;
    let store = ground
        .open_with(|options| {
            options.readers = 1;
            options.connect_timeout = std::time::Duration::from_secs(2);
        })
        .await;
    read(&store).await.unwrap();
    let stopped = Stopped::session(&plain, READ).await;
    for _ in 0..1_000 {
        give_up(&store).await;
    }
    let crowd = soon("answers", join_all((0..100).map(|_| read(&store)))).await;
    for refused in crowd {
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Later),
            "{refused}"
        );
    }
    drop(stopped);
    soon("an answer", read(&store)).await.unwrap();
}

/// One of the read connections does not answer. Later callers take another.
#[tokio::test]
async fn a_read_connection_that_does_not_answer_holds_up_only_its_own_callers() {
    let server = Server::start().unwrap();
    let ground = Ground::on(&server.url());
    let plain = ground.connect().await;
    let store = ground.open_with(|options| options.readers = 3).await;
    // The first connection was made when the store was opened; the second is the only one that was
    // sent this.
    read(&store).await.unwrap();
    let stopped = Stopped::session(&plain, READ).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(tokio::spawn({
            let store = store.clone();
            async move { read(&store).await.unwrap() }
        }));
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        soon("an answer of another connection", read(&store)).await.unwrap();
    }
    assert_eq!(waiting.iter().filter(|waiting| !waiting.is_finished()).count(), 1);
    drop(stopped);
    for waiting in waiting {
        soon("the answer", waiting).await.unwrap();
    }
    committed(&store, append("a", "a")).await;
}
