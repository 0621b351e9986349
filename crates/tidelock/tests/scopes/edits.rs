//! Edits of an untyped document, which the store makes itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::scopes::ScopeError;
use tidelock::store::{
    Commit, CommitOutcome, RecordKey, Result, Slot, Store, StoreLayer, async_trait,
};
use tidelock_test_stage::{TestStore, on_every_store};
use tokio::task::JoinSet;

use crate::basket::baskets;

on_every_store!(
    writers_of_one_document_never_conflict,
    edits_answer_as_they_do_in_memory,
    an_edit_renews_the_ttl,
    a_validated_document_is_not_edited_past_its_validation,
    an_edit_from_inside_the_scopes_own_mutator_is_an_error,
);

/// Counts what reaches the store.
#[derive(Debug)]
struct Counted {
    store: Arc<dyn Store>,
    reads: AtomicU32,
    commits: AtomicU32,
    conflicts: AtomicU32,
}

impl Counted {
    fn over(store: Arc<dyn Store>) -> Arc<Self> {
        let (reads, commits, conflicts) = Default::default();
        Arc::new(Self { store, reads, commits, conflicts })
    }
}

#[async_trait]
impl StoreLayer for Counted {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.get(keys).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        let outcome = self.store.commit(commit).await?;
        if matches!(outcome, CommitOutcome::Conflict(_)) {
            self.conflicts.fetch_add(1, Ordering::SeqCst);
        }
        Ok(outcome)
    }
}

fn untyped(tidelock: &Tidelock) -> Scope<Value> {
    tidelock.scope(baskets(), "untyped")
}

/// SCOPE-15.
async fn writers_of_one_document_never_conflict(stage: TestStore) {
    untyped(&stage.tidelock().await).create(json!({})).await.unwrap();
    let (mut counted, mut writers) = (Vec::new(), JoinSet::new());
    for process in 0..4 {
        let store = Counted::over(stage.store().await);
        let scope = untyped(&Tidelock::over(store.clone()));
        counted.push(store);
        for nth in 0..10_u32 {
            let scope = scope.clone();
            writers.spawn(async move {
                let name = format!("{process}-{nth}");
                scope.push("/log/all", &name).await.unwrap();
                scope.set_entry("seen", &name, nth).await.unwrap();
                scope.increment("total", 1).await.unwrap().value
            });
        }
    }
    let mut sums = writers.join_all().await;
    sums.sort_unstable();
    assert_eq!(sums, (1..=40).collect::<Vec<_>>());
    for store in &counted {
        let count = |of: &AtomicU32| of.load(Ordering::SeqCst);
        assert_eq!(
            (count(&store.reads), count(&store.commits), count(&store.conflicts)),
            (0, 30, 0),
            "one commit for each edit"
        );
    }
    let document = untyped(&stage.tidelock().await).get().await.unwrap();
    assert_eq!(document["log"]["all"].as_array().unwrap().len(), 40);
    assert_eq!(document["seen"].as_object().unwrap().len(), 40);
}

/// SCOPE-11, SCOPE-15.
async fn edits_answer_as_they_do_in_memory(stage: TestStore) {
    let stored = untyped(&stage.tidelock().await);
    let in_memory = Scope::in_memory(baskets(), "untyped", Value::Null);
    let mut answers = Vec::new();
    for scope in [&stored, &in_memory] {
        let mut told: Vec<(Value, bool)> = Vec::new();
        let removed = scope.remove_entry("a", "b").await.unwrap();
        told.push((removed.value.into(), removed.is_applied()));
        for _ in 0..2 {
            let set = scope.set_entry("a", "b", 1).await.unwrap();
            told.push((Value::Null, set.is_applied()));
            let patched = scope.patch(json!({ "a": { "c": [] }, "d": null })).await.unwrap();
            told.push((Value::Null, patched.is_applied()));
        }
        for by in [3, 0] {
            let sum = scope.increment("/a/n", by).await.unwrap();
            told.push((sum.value.into(), sum.is_applied()));
        }
        let pushed = scope.push("/a/c", "x").await.unwrap();
        told.push((pushed.value.into(), pushed.is_applied()));
        let removed = scope.remove_entry("a", "b").await.unwrap();
        told.push((removed.value.into(), removed.is_applied()));
        let unfit = scope.increment("a", 1).await.unwrap_err();
        assert!(matches!(unfit, ScopeError::Unfit { .. }), "{unfit}");
        told.push((unfit.to_string().into(), false));
        scope.delete().await.unwrap();
        let gone = scope.push("a", 1).await.unwrap_err();
        assert!(matches!(gone, ScopeError::Gone { .. }), "{gone}");
        answers.push(told);
    }
    assert_eq!(answers[0], answers[1]);
}

/// SCOPE-15.
async fn an_edit_renews_the_ttl(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let kind = ScopeKind::custom("visit").ttl(Duration::from_secs(60));
    let scope = tidelock.scope::<Value>(kind, "ada");
    scope.increment("pages", 1).await.unwrap();
    let first = scope.load().await.unwrap().expires_at.unwrap();
    let earliest = tidelock.store().now().await.unwrap().plus(Duration::from_secs(60));
    assert!(first <= earliest);
    scope.increment("pages", 1).await.unwrap();
    let second = scope.load().await.unwrap().expires_at.unwrap();
    assert!(second >= earliest, "{first} was kept");
}

/// SCOPE-10.
async fn a_validated_document_is_not_edited_past_its_validation(stage: TestStore) {
    let few = |document: &Value| match document["n"].as_i64() {
        Some(3..) => Err("at most 2".to_owned()),
        _ => Ok(()),
    };
    let scope = untyped(&stage.tidelock().await).validate(few);
    for _ in 0..2 {
        scope.increment("n", 1).await.unwrap();
    }
    let rejected = scope.increment("n", 1).await.unwrap_err();
    assert!(matches!(rejected, ScopeError::Rejected { .. }), "{rejected}");
}

/// Were it made, it would be made again with each attempt of the mutator.
async fn an_edit_from_inside_the_scopes_own_mutator_is_an_error(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (document, counter) = (untyped(&tidelock), tidelock.scope::<i64>(baskets(), "counted"));
    document.create(json!({ "n": 0 })).await.unwrap();
    counter.create(0).await.unwrap();
    let inside = async |document_now: Value| {
        let error = document.increment("n", 1).await.unwrap_err();
        Ok::<_, Infallible>((document_now, error))
    };
    let of_document = document.mutate_async(inside).await.unwrap().value;
    let inside = async |now: i64| {
        let error = counter.increment("", 1).await.unwrap_err();
        Ok::<_, Infallible>((now, error))
    };
    let of_counter = counter.mutate_async(inside).await.unwrap().value;
    for error in [of_document, of_counter] {
        assert!(matches!(error, ScopeError::Reentered { .. }), "{error}");
    }
    assert_eq!(document.get().await.unwrap()["n"], 0);
    assert_eq!(counter.get().await.unwrap(), 0);
}
