//! Callers of one process that change one durable scope.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock_test_stage::{TestStore, Wrapped, on_every_store, until};
use tokio::task::{JoinHandle, JoinSet};

use crate::basket::{Basket, shared};
use crate::lossy::{Fault, Lossy};

on_every_store!(
    waiting_callers_share_a_commit_and_get_their_own_results,
    an_unstorable_mutation_does_not_affect_others,
    a_caller_cancelled_before_its_commit_changes_nothing,
    a_caller_cancelled_during_its_commit_does_not_affect_others,
    mutations_on_a_refused_commit_are_retried,
    a_panic_in_a_mutator_is_its_callers_alone,
    a_remembered_scope_costs_one_call,
);

/// A handle to a store whose commits are held, and a caller whose commit is in flight.
async fn held(stage: &TestStore) -> (Arc<Wrapped<Lossy>>, Scope<Basket>, JoinHandle<i64>) {
    let store = Lossy::over(stage.store().await);
    let scope = shared(&Tidelock::over(store.clone()));
    store.hold();
    let first = counting(&scope);
    until("the first commit is under way", async || store.commits() == 1).await;
    (store, scope, first)
}

fn counting(scope: &Scope<Basket>) -> JoinHandle<i64> {
    let scope = scope.clone();
    tokio::spawn(async move { scope.increment("total", 1).await.unwrap().value })
}

/// Waits until all spawned callers are in the queue. A caller leaves it as soon as its change is in
/// a batch, so a mutator that is called comes after them all.
async fn all_in_line(scope: &Scope<Basket>, total: i64) {
    let ahead = async || {
        let looked = Arc::new(std::sync::Mutex::new(0));
        let (noted, scope) = (looked.clone(), scope.clone());
        let look =
            async move { scope.mutate(|basket| *noted.lock().unwrap() = basket.total).await };
        let _ = tokio::time::timeout(Duration::from_millis(20), look).await;
        let seen = *looked.lock().unwrap();
        seen == total
    };
    until("all are in the queue", ahead).await;
}

/// SCOPE-7.
async fn waiting_callers_share_a_commit_and_get_their_own_results(stage: TestStore) {
    const WAITING: i64 = 20;
    let (store, scope, first) = held(&stage).await;
    let mut waiting = JoinSet::new();
    for _ in 0..WAITING {
        let scope = scope.clone();
        waiting.spawn(async move { scope.increment("total", 1).await.unwrap().value });
    }
    all_in_line(&scope, WAITING + 1).await;
    store.let_through();
    assert_eq!(first.await.unwrap(), 1);
    let mut sums = waiting.join_all().await;
    sums.sort_unstable();
    assert_eq!(sums, (2..=WAITING + 1).collect::<Vec<_>>());
    assert_eq!(store.commits(), 2, "all who waited share one");
}

/// SCOPE-7, SCOPE-10.
async fn an_unstorable_mutation_does_not_affect_others(stage: TestStore) {
    let store = Lossy::over(stage.store().await);
    let scope = Tidelock::over(store.clone()).scope::<Value>(ScopeKind::USER, "ada");
    // What is validated is not edited in the store.
    let scope = scope.validate(|_| Ok(()));
    store.hold();
    let counting = |field: &'static str| {
        let scope = scope.clone();
        tokio::spawn(async move { scope.increment(field, 1).await })
    };
    let first = counting("a");
    until("the first commit is under way", async || store.commits() == 1).await;
    let good = counting("b");
    let deep = (0..80).fold(json!(1), |inner, _| json!([inner]));
    let too_deep = scope.mutate(|document| document["deep"] = deep.clone()).await.unwrap_err();
    assert!(
        too_deep.to_string().contains("scope user/ada")
            && too_deep.to_string().contains("64 levels"),
        "{too_deep}"
    );
    let large = "x".repeat(1 << 20);
    let too_large = scope.set_entry("", "large", &large).await.unwrap_err();
    assert!(too_large.to_string().contains("the limit is 1048576"), "{too_large}");
    store.let_through();
    first.await.unwrap().unwrap();
    good.await.unwrap().unwrap();
    assert_eq!(scope.get().await.unwrap(), json!({ "a": 1, "b": 1 }));
}

/// SCOPE-7.
async fn a_caller_cancelled_before_its_commit_changes_nothing(stage: TestStore) {
    let (store, scope, first) = held(&stage).await;
    let leaving = counting(&scope);
    all_in_line(&scope, 2).await;
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    store.let_through();
    first.await.unwrap();
    assert_eq!(
        scope.increment("total", 10).await.unwrap().value,
        11,
        "not with the next one's commit either"
    );
}

/// SCOPE-7: the commit in flight belongs to the task that drives it, and then to the next one.
async fn a_caller_cancelled_during_its_commit_does_not_affect_others(stage: TestStore) {
    let (store, scope, first) = held(&stage).await;
    let second = counting(&scope);
    all_in_line(&scope, 2).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    store.let_through();
    assert_eq!(second.await.unwrap(), 2, "what it was built on is there");
    assert_eq!(scope.get().await.unwrap().total, 2);
}

/// SCOPE-7, SCOPE-5.
async fn mutations_on_a_refused_commit_are_retried(stage: TestStore) {
    let (store, scope, first) = held(&stage).await;
    let second = counting(&scope);
    all_in_line(&scope, 2).await;
    shared(&stage.tidelock().await).increment("total", 100).await.unwrap();
    store.let_through();
    let mut sums = [first.await.unwrap(), second.await.unwrap()];
    sums.sort_unstable();
    assert_eq!(sums, [101, 102]);
}

/// SCOPE-3, SCOPE-7.
async fn a_panic_in_a_mutator_is_its_callers_alone(stage: TestStore) {
    let (store, scope, first) = held(&stage).await;
    let panicking = {
        let scope = scope.clone();
        tokio::spawn(async move { scope.mutate(|_| -> () { panic!("on purpose") }).await })
    };
    assert!(panicking.await.unwrap_err().is_panic());
    let third = counting(&scope);
    store.let_through();
    assert_eq!((first.await.unwrap(), third.await.unwrap()), (1, 2));
}

/// SCOPE-7: the cache saves the read, and nothing is written without its revision.
async fn a_remembered_scope_costs_one_call(stage: TestStore) {
    let store = Lossy::over(stage.store().await);
    let scope = shared(&Tidelock::over(store.clone()));
    scope.increment("total", 1).await.unwrap();
    let (reads, commits) = (store.reads(), store.commits());
    for _ in 0..5 {
        scope.increment("total", 1).await.unwrap();
    }
    assert_eq!((store.reads(), store.commits()), (reads, commits + 5));
    store.fail([Fault::LostRequest]);
    assert_eq!(scope.increment("total", 1).await.unwrap().value, 7);
    let forgetful = shared(&Tidelock::over(store.clone()).with_cache_capacity(0));
    forgetful.increment("total", 1).await.unwrap();
    let reads = store.reads();
    forgetful.increment("total", 1).await.unwrap();
    assert_eq!(store.reads(), reads + 1, "without a cache each one looks");
}
