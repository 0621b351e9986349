//! Named operations on a scope, in memory and in the store.

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::scopes::MutationOutcome;
use tidelock::scopes::ScopeError;
use tidelock_test_stage::{TestStore, on_every_store};

use crate::basket::{Basket, baskets, in_memory, revision, shared};
use crate::lossy::Lossy;

on_every_store!(
    every_operation_does_the_same_in_memory_and_in_the_store,
    a_document_may_have_any_shape,
    a_mutator_that_says_no_changes_nothing,
    a_no_op_writes_nothing,
    a_no_op_is_validated_against_the_store,
    a_scope_that_is_an_integer_is_counted_by_the_store,
);

/// SCOPE-11.
async fn every_operation_does_the_same_in_memory_and_in_the_store(stage: TestStore) {
    for scope in [in_memory(), shared(&stage.tidelock().await)] {
        scope.patch(json!({ "total": 5, "flags": { "gift": true } })).await.unwrap();
        assert_eq!(scope.increment("total", -2).await.unwrap().value, 3);
        assert_eq!(scope.push("items", "tea").await.unwrap().value, 1);
        assert_eq!(scope.push("/items", "jam").await.unwrap().value, 2);
        scope.set_entry("flags", "express", true).await.unwrap();
        assert!(scope.remove_entry("flags", "gift").await.unwrap().value);
        let doubled = scope.mutate(|basket| {
            basket.total *= 2;
            basket.total
        });
        assert_eq!(doubled.await.unwrap().value, 6);
        let basket = scope.get().await.unwrap();
        let expected = json!({ "items": ["tea", "jam"], "total": 6, "flags": { "express": true } });
        assert_eq!(serde_json::to_value(&basket).unwrap(), expected);
        let before = revision(&scope).await.unwrap();
        let set = scope.set(&Basket { total: 1, ..Basket::default() }).await.unwrap();
        assert_eq!(set.revision().unwrap().get(), before + 1);
        assert_eq!(scope.get().await.unwrap(), Basket { total: 1, ..Basket::default() });
    }
}

/// SCOPE-11.
async fn a_document_may_have_any_shape(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let scope = tidelock.scope::<Value>(ScopeKind::USER, "ada");
    scope.increment("/visits/today", 1).await.unwrap();
    scope.push("log", json!({ "page": 7 })).await.unwrap();
    scope.set_entry("/settings/theme", "dark", 1.5).await.unwrap();
    scope.patch(json!({ "visits": { "today": null, "all": 9 } })).await.unwrap();
    let document = json!({ "visits": { "all": 9 }, "log": [{ "page": 7 }], "settings": { "theme": { "dark": 1.5 } } });
    assert_eq!(scope.get().await.unwrap(), document);
    assert_eq!(
        tidelock.scope::<Value>(ScopeKind::ORG, "ada").get().await.unwrap(),
        Value::Null,
        "another kind"
    );
}

/// SCOPE-11.
async fn a_mutator_that_says_no_changes_nothing(stage: TestStore) {
    for scope in [in_memory(), shared(&stage.tidelock().await)] {
        scope.increment("total", 3).await.unwrap();
        let spend = |basket: &mut Basket| {
            basket.total -= 5;
            if basket.total < 0 { Err(format!("{} short", -basket.total)) } else { Ok(()) }
        };
        let refused = scope.try_mutate(spend).await.unwrap_err();
        assert_eq!(refused.to_string(), "2 short");
        assert_eq!(refused.refused(), Some("2 short".to_owned()));
        assert_eq!(scope.get().await.unwrap().total, 3);
    }
}

/// SCOPE-9.
async fn a_no_op_writes_nothing(stage: TestStore) {
    let store = Lossy::over(stage.store().await);
    let scope = shared(&Tidelock::over(store.clone()));
    let nothing = scope.remove_entry("flags", "gift").await.unwrap();
    assert_eq!(
        (nothing.value, nothing.outcome),
        (false, MutationOutcome::Unchanged(None)),
        "it does not exist either"
    );
    let first = scope.increment("total", 3).await.unwrap().revision();
    let commits = store.commits();
    for _ in 0..2 {
        let mutated = scope.patch(json!({ "total": 3 })).await.unwrap();
        assert!(!mutated.is_applied() && mutated.revision() == first, "{mutated:?}");
        scope.set(&Basket { total: 3, ..Basket::default() }).await.unwrap();
        scope.mutate(|basket| basket.total = 3).await.unwrap();
        scope.increment("total", 0).await.unwrap();
    }
    assert_eq!(store.commits(), commits);
    assert_eq!(revision(&scope).await, first.map(tidelock::store::Revision::get));
}

/// SCOPE-9. Schedule 57: the cached state says that there is nothing to do; the store says
/// otherwise.
async fn a_no_op_is_validated_against_the_store(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    here.increment("total", 3).await.unwrap();
    there.increment("total", 1).await.unwrap();
    let mutated = here.patch(json!({ "total": 3 })).await.unwrap();
    assert!(mutated.is_applied(), "{mutated:?}");
    assert_eq!(there.get().await.unwrap().total, 3);
    there.increment("total", 1).await.unwrap();
    let seen = here.mutate(|basket| basket.total).await.unwrap();
    assert_eq!(seen.value, 4, "a mutator that only looks sees what is there");
}

/// SCOPE-11: no read, no conflict, one commit each, from any number of processes.
async fn a_scope_that_is_an_integer_is_counted_by_the_store(stage: TestStore) {
    let tally = Lossy::over(stage.store().await);
    let hits = Tidelock::over(tally.clone()).scope::<i64>(ScopeKind::custom("hits"), "home");
    let elsewhere = stage.tidelock().await.scope::<i64>(ScopeKind::custom("hits"), "home");
    assert_eq!(hits.increment("", 5).await.unwrap().value, 5);
    assert_eq!(elsewhere.increment("", 2).await.unwrap().value, 7);
    let (reads, commits) = (tally.reads(), tally.commits());
    assert_eq!(hits.increment("", -3).await.unwrap().value, 4);
    assert_eq!((tally.reads(), tally.commits()), (reads, commits + 1));
    assert_eq!(hits.mutate(|count| *count * 10).await.unwrap().value, 40);
    hits.set(&i64::MAX).await.unwrap();
    let error = hits.increment("", 1).await.unwrap_err();
    assert!(matches!(error, ScopeError::Unfit { .. }), "{error}");
    hits.delete().await.unwrap();
    let error = elsewhere.increment("", 1).await.unwrap_err();
    assert!(matches!(error, ScopeError::Gone { .. }), "being counted brings nothing back: {error}");
    let bounded = stage
        .tidelock()
        .await
        .scope::<i64>(baskets(), "n")
        .validate(|n| if *n > 1 { Err("at most one".to_owned()) } else { Ok(()) });
    bounded.increment("", 1).await.unwrap();
    assert!(
        matches!(bounded.increment("", 1).await, Err(ScopeError::Rejected { .. })),
        "a check is never passed over"
    );
}
