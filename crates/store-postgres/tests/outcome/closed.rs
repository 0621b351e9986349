//! Closing a store while calls are in flight.

use std::future::ready;

use futures_util::future::{join, join_all};
use tidelock_store::{RecordKey, Store, StoreErrorKind};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Proxy;

use crate::ground::{Ground, Plain, accepted, append, committed, soon};

const NO_SESSION: &str =
    "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '@')";

/// Commits that are blocked, the first at the server and the others queued; and the session that
/// blocks them.
async fn held_up_commits(
    ground: &Ground,
    store: &PostgresStore,
) -> (Plain, Vec<tokio::task::JoinHandle<()>>) {
    let (holder, looker) = (ground.block_appends().await, ground.connect().await);
    let commit = |nth: usize| {
        let store = store.clone();
        tokio::spawn(
            async move { drop(committed(&store, append(&nth.to_string(), "begun")).await) },
        )
    };
    let first = commit(0);
    looker.until_blocked(1).await;
    let commits = [first].into_iter().chain((1..20).map(commit)).collect();
    tokio::task::yield_now().await;
    (holder, commits)
}

/// A close waits for what was begun, even if there are several.
#[tokio::test]
async fn concurrent_closes_both_finish_what_was_begun() {
    let ground = Ground::shared();
    let store = ground.open().await;
    let (holder, commits) = held_up_commits(&ground, &store).await;
    let closing = tokio::spawn({
        let store = store.clone();
        async move { join(store.close(), store.clone().close()).await }
    });
    tokio::task::yield_now().await;
    holder.run("COMMIT").await;
    let (one, other) = soon("both who close", closing).await.unwrap();
    assert!(one.is_ok() && other.is_ok());
    for commit in join_all(commits).await {
        commit.expect("it was begun before the store was closed");
    }
}

/// A close that was dropped does not shorten the next one.
#[tokio::test]
async fn a_close_after_a_dropped_one_finishes_what_was_begun() {
    let ground = Ground::shared();
    let store = ground.open().await;
    let (holder, commits) = held_up_commits(&ground, &store).await;
    tokio::select! {
        biased;
        _ = store.close() => panic!("nothing can have been finished"),
        () = ready(()) => {}
    }
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    tokio::task::yield_now().await;
    assert!(!closing.is_finished());
    holder.run("COMMIT").await;
    soon("the one who closes", closing).await.unwrap().unwrap();
    for commit in join_all(commits).await {
        commit.expect("it was begun before the store was closed");
    }
}

/// Closing ends all connections, even one that is returned only afterwards. The handle is still
/// there.
#[tokio::test]
async fn a_connection_that_is_given_back_after_the_end_is_not_kept() {
    let ground = Ground::shared();
    let (store, looker) = (ground.open().await, ground.connect().await);
    let own = store.begin().await.unwrap();
    store.close().await.unwrap();
    accepted(soon("the commit", own.commit(append("own", "own"))).await.unwrap());
    looker.until("no connection is left", NO_SESSION).await;
    drop(store);
}

/// And one that was being made at that moment.
#[tokio::test]
async fn a_connection_that_is_made_while_the_store_is_closed_is_not_kept() {
    let ground = Ground::shared();
    let (proxy, looker) = (Proxy::to(ground.port()).unwrap(), ground.connect().await);
    let store = ground.through(proxy.port()).open_with(|options| options.readers = 2).await;
    let before = proxy.connections();
    proxy.stall();
    let reading = tokio::spawn({
        let store = store.clone();
        async move { store.get(&[RecordKey::new("a").unwrap()]).await }
    });
    soon("another connection", async {
        while proxy.connections() == before {
            tokio::task::yield_now().await;
        }
    })
    .await;
    store.close().await.unwrap();
    proxy.heal();
    let refused = soon("an answer", reading).await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{refused}");
    looker.until("no connection is left", NO_SESSION).await;
    drop(store);
}
