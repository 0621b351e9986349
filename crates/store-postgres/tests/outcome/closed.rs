//! A store that is closed while something is under way.

use std::future::ready;

use futures_util::future::{join, join_all};
use tidelock_store::{RecordKey, Store, StoreErrorKind};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Proxy;

use crate::ground::{Ground, Plain, accepted, append, committed, soon};

const NO_SESSION: &str =
    "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '@')";

/// Commits that cannot go on, the first at the server and the others behind it; and the one who
/// holds them up.
async fn held_up_commits(
    ground: &Ground,
    store: &PostgresStore,
) -> (Plain, Vec<tokio::task::JoinHandle<()>>) {
    let (holder, looker) = (ground.let_nobody_append().await, ground.connect().await);
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

/// Whoever closes waits for what was begun, also when others do the same.
#[tokio::test]
async fn two_who_close_at_the_same_time_both_finish_what_was_begun() {
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

/// One who gave up closing has not made it any quicker for the next.
#[tokio::test]
async fn whoever_closes_after_one_who_gave_up_finishes_what_was_begun() {
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

/// Closing ends all connections, also one that comes back only afterwards. The handle is still
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

/// Nor is one that was being made at that moment.
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
