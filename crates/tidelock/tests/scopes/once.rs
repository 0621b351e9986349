//! Mutations with an operation id take effect once, however often they are retried.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::scopes::ScopeError;
use tidelock::store::StoreErrorKind;
use tidelock_test_stage::{TestStore, on_every_store};
use tokio::task::JoinSet;

use crate::basket::{Basket, in_memory, shared};
use crate::lossy::{Fault, Lossy};

on_every_store!(
    an_operation_is_done_once_and_answers_alike,
    however_many_ask_at_once_it_is_done_once,
    a_lost_reply_is_asked_for_again_and_not_done_again,
    an_operation_that_changed_nothing_is_remembered_and_a_refusal_is_not,
    an_operation_is_forgotten_after_its_time,
    a_scope_is_created_and_deleted_once,
    an_operation_that_is_used_for_another_mutation_is_refused,
);

/// SCOPE-8.
async fn an_operation_is_done_once_and_answers_alike(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    let first = here.operation_id("order-1").increment("total", 5).await.unwrap();
    assert_eq!((first.value, first.replayed), (5, false));
    here.increment("total", 1).await.unwrap();
    for scope in [&here, &there] {
        let again = scope.operation_id("order-1").increment("total", 5).await.unwrap();
        assert_eq!((again.value, again.outcome, again.replayed), (5, first.outcome, true));
    }
    assert_eq!(there.operation_id("order-2").increment("total", 5).await.unwrap().value, 11);
    let push = |basket: &mut Basket| {
        basket.items.push("tea".to_owned());
        ("pushed".to_owned(), basket.items.len())
    };
    let first = here.operation_id("order-3").mutate(push).await.unwrap();
    let again = there.operation_id("order-3").mutate(push).await.unwrap();
    assert_eq!(first.value, again.value);
    assert_eq!(here.get().await.unwrap().items, ["tea"]);
    here.operation_id("").increment("total", 1).await.expect_err("an empty id is none");
    let other = stage.tidelock().await.scope::<Basket>(ScopeKind::USER, "shared");
    assert_eq!(
        other.operation_id("order-1").increment("total", 1).await.unwrap().value,
        1,
        "each scope has its own"
    );
}

/// SCOPE-8.
async fn however_many_ask_at_once_it_is_done_once(stage: TestStore) {
    let mut asking = JoinSet::new();
    for _ in 0..4 {
        let scope = shared(&stage.tidelock().await);
        for _ in 0..3 {
            let scope = scope.clone();
            asking.spawn(
                async move { scope.operation_id("one").increment("total", 1).await.unwrap() },
            );
        }
    }
    let answers = asking.join_all().await;
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    assert!(answers.iter().all(|answer| answer.value == 1 && answer.outcome == answers[0].outcome));
    assert_eq!(shared(&stage.tidelock().await).get().await.unwrap().total, 1);
}

/// SCOPE-8. Schedule 56: the newer revision is the caller's own.
async fn a_lost_reply_is_asked_for_again_and_not_done_again(stage: TestStore) {
    let store = Lossy::over(stage.store().await);
    let tidelock = Tidelock::over(store.clone());
    let scope = shared(&tidelock);
    let hits = tidelock.scope::<i64>(ScopeKind::custom("hits"), "home");
    for expected in 1..=3 {
        store.fail([Fault::LostReply, Fault::LostRequest]);
        let mutated = scope.increment("total", 1).await.unwrap();
        assert_eq!(
            (mutated.value, mutated.attempts),
            (expected, 1),
            "there was no conflict with itself"
        );
        store.fail([Fault::LostReply]);
        let operation = format!("op-{expected}");
        scope.operation_id(&operation).push("items", &operation).await.unwrap();
        assert!(scope.operation_id(&operation).push("items", &operation).await.unwrap().replayed);
    }
    hits.increment("", 1).await.unwrap();
    store.fail([Fault::LostReply]);
    assert_eq!(hits.increment("", 1).await.unwrap().value, 2);
    store.fail([Fault::LostReply]);
    scope.delete().await.unwrap();
    store.fail([Fault::LostReply]);
    scope.create(Basket::default()).await.expect("its own creation is not a conflict");
    assert_eq!(hits.get().await.unwrap(), 2);
}

/// SCOPE-8.
async fn an_operation_that_changed_nothing_is_remembered_and_a_refusal_is_not(stage: TestStore) {
    let scope = shared(&stage.tidelock().await);
    let removed = scope.operation_id("tidy").remove_entry("flags", "gift").await.unwrap();
    assert!(!removed.value && !removed.is_applied());
    scope.set_entry("flags", "gift", true).await.unwrap();
    let again = scope.operation_id("tidy").remove_entry("flags", "gift").await.unwrap();
    assert!(again.replayed && !again.value && again.outcome == removed.outcome);
    assert!(scope.get().await.unwrap().flags["gift"]);

    let calls = AtomicU32::new(0);
    let spend = |basket: &mut Basket| {
        calls.fetch_add(1, Ordering::SeqCst);
        if basket.total < 5 { Err("not enough") } else { Ok(()) }
    };
    let refused = scope.operation_id("spend").try_mutate(spend).await.unwrap_err();
    assert_eq!(refused.refused(), Some("not enough"));
    scope.increment("total", 5).await.unwrap();
    scope.operation_id("spend").try_mutate(spend).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

/// SCOPE-8.
async fn an_operation_is_forgotten_after_its_time(stage: TestStore) {
    let scope = shared(&stage.tidelock().await);
    let long =
        if stage.is_simulated() { Duration::from_secs(3600) } else { Duration::from_millis(20) };
    let ask = || scope.operation_id("brief").dedup_window(long);
    assert_eq!(ask().increment("total", 1).await.unwrap().value, 1);
    tidelock_test_stage::until("it is forgotten", async || {
        tokio::time::sleep(long).await;
        !ask().increment("total", 1).await.unwrap().replayed
    })
    .await;
    assert_eq!(scope.get().await.unwrap().total, 2);
}

/// SCOPE-8. In the store and in memory: later changes are kept.
async fn a_scope_is_created_and_deleted_once(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let alone = in_memory();
    alone.delete().await.unwrap();
    for [one, other] in [[shared(&here), shared(&there)], [alone.clone(), alone]] {
        let basket = |total| Basket { total, ..Basket::default() };
        let nothing = one.operation_id("early").delete().await.unwrap();
        assert!(!nothing.is_applied());
        let created = one.operation_id("create").create(basket(1)).await.unwrap();
        other.operation_id("early").delete().await.unwrap();
        let again = other.operation_id("create").create(basket(1)).await.unwrap();
        assert_eq!((again.outcome, again.replayed), (created.outcome, true));
        other.create(basket(2)).await.expect_err("it is there");
        let deleted = one.operation_id("delete").delete().await.unwrap();
        assert!(deleted.is_applied());
        other.create(basket(3)).await.unwrap();
        let again = other.operation_id("delete").delete().await.unwrap();
        assert_eq!((again.outcome, again.replayed), (deleted.outcome, true));
        one.operation_id("create").create(basket(1)).await.unwrap();
        assert_eq!(one.get().await.unwrap().total, 3);
    }
}

/// SCOPE-8. In the store and in memory; a function is told from another by what the caller says it
/// is for.
async fn an_operation_that_is_used_for_another_mutation_is_refused(stage: TestStore) {
    for scope in [in_memory(), shared(&stage.tidelock().await)] {
        scope.operation_id("one").increment("total", 5).await.unwrap();
        assert!(
            scope.operation_id("one").increment("/total", 5).await.unwrap().replayed,
            "the same place"
        );
        is_other(scope.operation_id("one").increment("total", 6).await.unwrap_err());
        is_other(scope.operation_id("one").increment("other", 5).await.unwrap_err());
        is_other(scope.operation_id("one").patch(json!({ "total": 5 })).await.unwrap_err());
        is_other(scope.operation_id("one").set(&Basket::default()).await.unwrap_err());
        is_other(scope.operation_id("one").push("items", "tea").await.unwrap_err());
        is_other(scope.operation_id("one").set_entry("flags", "gift", true).await.unwrap_err());
        is_other(scope.operation_id("one").remove_entry("flags", "gift").await.unwrap_err());
        is_other(scope.operation_id("one").delete().await.unwrap_err());
        is_other(scope.operation_id("one").create(Basket::default()).await.unwrap_err());
        is_other(scope.operation_id("one").mutate(|basket| basket.total = 0).await.unwrap_err());
        let add = async |by: i64, order: &str| {
            let mutation = scope.operation_id("two").fingerprint(order);
            mutation.mutate(|basket: &mut Basket| basket.total += by).await
        };
        add(1, "order 1").await.unwrap();
        assert!(add(1, "order 1").await.unwrap().replayed);
        is_other(add(2, "order 2").await.unwrap_err());
        assert_eq!(scope.get().await.unwrap(), Basket { total: 6, ..Basket::default() });
    }
}

fn is_other(error: ScopeError) {
    let ScopeError::Store(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), StoreErrorKind::IdempotencyMismatch, "{error}");
}
