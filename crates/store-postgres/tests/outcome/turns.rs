//! Batching: callers that commit repeatedly come to share batches.

use tidelock_store::Commit;
use tidelock_store_postgres::PostgresStore;
use tokio::task::JoinHandle;

use crate::ground::{Ground, append, committed, soon};

/// How often each of them commits.
const ROUNDS: usize = 20;

/// Makes this commit, and then commits to its own stream, one after the other.
fn again_and_again(store: &PostgresStore, name: &'static str, first: Commit) -> JoinHandle<()> {
    let store = store.clone();
    tokio::spawn(async move {
        committed(&store, first).await;
        for _ in 0..ROUNDS {
            committed(&store, append(name, name)).await;
        }
    })
}

/// One of two is in flight when the other arrives. If each went as soon as the other returned, both
/// would wait for two flushes every time, indefinitely.
#[tokio::test]
async fn alternating_callers_come_to_share_batches() {
    let ground = Ground::shared();
    let (store, plain) = (ground.open().await, ground.connect().await);
    let (alone, queued) = (ground.connect().await, ground.connect().await);
    for name in ["alone", "queued"] {
        committed(&store, append(name, "before")).await;
    }
    alone.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'alone' FOR UPDATE").await;
    queued.run("BEGIN; SELECT FROM tidelock.streams WHERE name = 'queued' FOR UPDATE").await;
    let before = tokio::spawn({
        let store = store.clone();
        async move { committed(&store, append("alone", "alone")).await }
    });
    plain.until_blocked(1).await;
    let one = again_and_again(&store, "one", append("queued", "one"));
    alone.run("COMMIT").await;
    soon("the caller who was alone", before).await.unwrap();
    plain.until_blocked(1).await;
    let other = again_and_again(&store, "other", append("other", "first"));
    tokio::task::yield_now().await;
    queued.run("COMMIT").await;
    soon("both", async { (one.await.unwrap(), other.await.unwrap()) }).await;

    let sql =
        "SELECT count(DISTINCT xmin::text) FROM tidelock.events WHERE stream IN ('one', 'other')";
    let transactions = plain.one::<i64>(sql).await as usize;
    assert!(
        transactions < ROUNDS * 3 / 2,
        "{transactions} transactions for twice {ROUNDS} commits"
    );
}
