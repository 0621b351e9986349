//! Watching a scope.

use std::time::Duration;

use tidelock::prelude::*;
use tidelock_test_stage::{PATIENCE, TestStore, on_every_store};

use crate::basket::{Basket, in_memory, shared};

on_every_store!(
    a_watcher_sees_the_first_the_newest_and_the_last_state,
    the_last_state_is_never_missed,
    an_expiry_is_seen_without_a_notification,
);

/// SCOPE-13: from another process, where possible.
async fn a_watcher_sees_the_first_the_newest_and_the_last_state(stage: TestStore) {
    let there = shared(&stage.tidelock().await);
    let pairs = {
        let local = in_memory();
        [(local.clone(), local), (shared(&stage.tidelock().await), there)]
    };
    for (here, there) in pairs {
        let mut watch = here.watch().unwrap().every(Duration::from_millis(50));
        let first = watch.next().await.unwrap();
        assert!(first.state.is_none_or(|state| *state == Basket::default()));
        there.increment("total", 1).await.unwrap();
        assert_eq!(watch.next().await.unwrap().state.unwrap().total, 1);
        there.increment("total", 1).await.unwrap();
        there.increment("total", 1).await.unwrap();
        assert_eq!(
            watch.next().await.unwrap().state.unwrap().total,
            3,
            "the newest, and no older one"
        );
        let quiet = tokio::time::timeout(Duration::from_millis(120), watch.next()).await;
        assert!(quiet.is_err(), "nothing has changed");
        there.delete().await.unwrap();
        assert!(watch.next().await.unwrap().is_gone());
        there.create(Basket { total: 9, ..Basket::default() }).await.unwrap();
        assert_eq!(watch.next().await.unwrap().state.unwrap().total, 9);
    }
}

/// SCOPE-13.
async fn the_last_state_is_never_missed(stage: TestStore) {
    const CHANGES: i64 = 50;
    let there = shared(&stage.tidelock().await);
    for scope in [in_memory(), there] {
        let mut watch = scope.watch().unwrap().every(Duration::from_millis(50));
        let writer = tokio::spawn(async move {
            for _ in 0..CHANGES {
                scope.increment("total", 1).await.unwrap();
            }
        });
        let mut seen = 0;
        while seen < CHANGES {
            let document = tokio::time::timeout(PATIENCE, watch.next())
                .await
                .expect("the last one comes")
                .unwrap();
            let total = document.state.map_or(0, |state| state.total);
            assert!(total >= seen, "never an older one");
            seen = total;
        }
        writer.await.unwrap();
    }
}

/// SCOPE-13, SCOPE-12.
async fn an_expiry_is_seen_without_a_notification(stage: TestStore) {
    let kind = ScopeKind::SESSION.ttl(Duration::from_millis(200));
    let scope = stage.tidelock().await.scope::<Basket>(kind, "s-1");
    scope.increment("total", 1).await.unwrap();
    let mut watch = scope.watch().unwrap().every(2 * PATIENCE);
    // On a slow machine it may have expired before the first read.
    if watch.next().await.unwrap().state.is_some() {
        let gone = tokio::time::timeout(PATIENCE, watch.next()).await.expect("it is told").unwrap();
        assert!(gone.is_gone());
    }
}
