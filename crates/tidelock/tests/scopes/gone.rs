//! Deleted and expired scopes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::scopes::ScopeError;
use tidelock::scopes::{MutationOutcome, ScopeState};
use tidelock::store::{ManualClock, MemoryStore, limits};
use tidelock_test_stage::{TestStore, on_every_store, until};
use tokio::task::JoinSet;

use crate::basket::{Basket, in_memory, put, revision, shared};

on_every_store!(
    a_scope_deleted_under_a_mutator_is_not_brought_back,
    one_that_moved_and_then_went_is_not_brought_back_by_the_second_try,
    a_deleted_scope_stays_deleted_until_it_is_created,
    a_delete_at_a_stale_revision_is_refused,
    of_two_creators_one_wins,
    a_mutation_of_what_must_exist_creates_nothing,
    a_session_expires_after_its_last_change,
    whatever_changes_a_session_prolongs_it,
);

/// Mutates, while this happens before each commit.
async fn mutate_while(
    scope: &Scope<Basket>,
    meanwhile: impl AsyncFn() + Copy,
) -> Result<(), ScopeError> {
    let mutate = |mut basket: Basket| async move {
        meanwhile().await;
        basket.total += 1;
        Ok::<_, Infallible>((basket, ()))
    };
    scope.mutate_async(mutate).await.map(drop)
}

/// SCOPE-6.
async fn a_scope_deleted_under_a_mutator_is_not_brought_back(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    put(&here, "old").await;
    let deleted = revision(&there).await.unwrap() + 1;
    let rival = &there;
    let meanwhile = async || {
        rival.delete().await.unwrap();
    };
    let error = mutate_while(&here, meanwhile).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "scope basket/shared: was deleted or has expired, at revision {deleted}; create it first"
        )
    );
    assert!(there.load().await.unwrap().is_gone());
    assert_eq!(revision(&there).await, Some(deleted));
}

/// SCOPE-6: from another process, and in memory.
async fn a_delete_at_a_stale_revision_is_refused(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    let local = in_memory();
    for (scope, rival) in [(&here, &there), (&local, &local)] {
        put(scope, "old").await;
        let seen = scope.load().await.unwrap().revision.unwrap();
        put(rival, "new").await;
        let error = scope.at_revision(seen).delete().await.unwrap_err();
        assert!(matches!(error, ScopeError::Moved { expected, .. } if expected == seen), "{error}");
        let seen = scope.load().await.unwrap().revision.unwrap();
        assert!(scope.at_revision(seen).delete().await.unwrap().is_applied());
        for late in [
            scope.at_revision(seen).delete().await,
            scope.mutation().only_existing().delete().await,
        ] {
            assert!(matches!(late.unwrap_err(), ScopeError::Gone { .. }));
        }
        assert!(!scope.delete().await.unwrap().is_applied(), "who expects nothing is content");
    }
}

/// SCOPE-6.
async fn one_that_moved_and_then_went_is_not_brought_back_by_the_second_try(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    let rival = &there;
    let first = std::sync::atomic::AtomicBool::new(true);
    let first = &first;
    let meanwhile = async || {
        if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            put(rival, "moved").await;
        } else {
            rival.delete().await.unwrap();
        }
    };
    let error = mutate_while(&here, meanwhile).await.unwrap_err();
    assert!(matches!(error, ScopeError::Gone { .. }), "{error}");
    assert!(there.load().await.unwrap().is_gone());
}

/// SCOPE-6.
async fn a_deleted_scope_stays_deleted_until_it_is_created(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    assert_eq!(
        here.delete().await.unwrap().outcome,
        MutationOutcome::Unchanged(None),
        "there was nothing to delete"
    );
    put(&here, "old").await;
    let first = revision(&here).await.unwrap();
    there.delete().await.unwrap();
    for scope in [&here, &there, &here] {
        let errors = [
            scope.increment("total", 1).await.map(drop).unwrap_err(),
            scope.set(&Basket::default()).await.map(drop).unwrap_err(),
            scope.operation_id("once").increment("total", 1).await.map(drop).unwrap_err(),
            scope.touch().await.map(drop).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, ScopeError::Gone { revision: Some(_), .. }), "{error}");
        }
        assert_eq!(scope.get().await.unwrap(), Basket::default());
    }
    let created = here.create(Basket { total: 7, ..Basket::default() }).await.unwrap();
    assert_eq!(created.revision().unwrap().get(), first + 2);
    assert_eq!(there.increment("total", 1).await.unwrap().value, 8);
    let error = there.create(Basket::default()).await.unwrap_err();
    let now = first + 3;
    assert_eq!(
        error.to_string(),
        format!("scope basket/shared: is there already, at revision {now}")
    );
}

/// SCOPE-6.
async fn of_two_creators_one_wins(stage: TestStore) {
    let mut creators = JoinSet::new();
    for total in 1..=8 {
        let scope = shared(&stage.tidelock().await);
        creators.spawn(async move {
            scope.create(Basket { total, ..Basket::default() }).await.map(|_| total)
        });
    }
    let (won, lost): (Vec<_>, Vec<_>) =
        creators.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    assert!(lost.iter().all(|lost| matches!(lost, Err(ScopeError::Taken { .. }))));
    assert_eq!(
        shared(&stage.tidelock().await).get().await.unwrap().total,
        *won[0].as_ref().unwrap()
    );
}

/// SCOPE-6.
async fn a_mutation_of_what_must_exist_creates_nothing(stage: TestStore) {
    let scope = shared(&stage.tidelock().await);
    let error = scope.mutation().only_existing().increment("total", 1).await.unwrap_err();
    assert!(matches!(error, ScopeError::Gone { revision: None, .. }), "{error}");
    assert_eq!(error.to_string(), "scope basket/shared: does not exist; create it first");
    assert_eq!(revision(&scope).await, None);
    scope.increment("total", 1).await.unwrap();
    assert_eq!(scope.mutation().only_existing().increment("total", 1).await.unwrap().value, 2);
}

async fn is_gone<S: ScopeState>(scope: &Scope<S>) -> bool {
    scope.load().await.unwrap().is_gone()
}

/// SCOPE-12.
async fn a_session_expires_after_its_last_change(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let kinds = [ScopeKind::REQUEST, ScopeKind::SESSION, ScopeKind::custom("draft")];
    for kind in kinds {
        let long = if stage.is_simulated() {
            kind.time_to_live().unwrap_or(Duration::from_secs(9))
        } else {
            Duration::from_millis(30)
        };
        let scope = tidelock.scope::<Basket>(kind.ttl(long), "s-1");
        put(&scope, "tea").await;
        // On a slow machine it may have expired already.
        let loaded = scope.load().await.unwrap();
        assert!(loaded.expires_at.is_some() || loaded.is_gone());
        if stage.is_simulated() {
            tokio::time::sleep(long).await;
        }
        until("it has expired", async || is_gone(&scope).await).await;
        let error = scope.increment("total", 1).await.unwrap_err();
        assert!(
            matches!(error, ScopeError::Gone { .. }),
            "an old session is not prolonged: {error}"
        );
        scope.create(Basket::default()).await.unwrap();
    }
    for kind in [ScopeKind::USER, ScopeKind::ORG, ScopeKind::SESSION.without_ttl()] {
        let scope = tidelock.scope::<Basket>(kind, "stays");
        put(&scope, "tea").await;
        assert_eq!(scope.load().await.unwrap().expires_at, None);
    }
}

/// SCOPE-12.
async fn whatever_changes_a_session_prolongs_it(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let scope = tidelock.scope::<Basket>(ScopeKind::SESSION, "s-1");
    let hours = async |hours: u64| {
        if stage.is_simulated() {
            tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
        }
    };
    put(&scope, "tea").await;
    let mut expiries = Vec::new();
    for nth in 0..3 {
        hours(20).await;
        match nth {
            0 => drop(scope.increment("total", 1).await.unwrap()),
            1 => drop(scope.operation_id("once").increment("total", 1).await.unwrap()),
            _ => drop(scope.touch().await.unwrap()),
        }
        expiries.push(scope.load().await.unwrap().expires_at.unwrap());
    }
    assert!(expiries.is_sorted() && expiries[0] < expiries[2], "{expiries:?}");
    hours(20).await;
    scope.patch(serde_json::json!({ "total": 2 })).await.unwrap();
    assert_eq!(
        scope.load().await.unwrap().expires_at,
        expiries.pop(),
        "what changes nothing prolongs nothing"
    );
    assert_eq!(scope.get().await.unwrap().items, ["tea"]);
    hours(5).await;
    assert_eq!(is_gone(&scope).await, stage.is_simulated());
}

/// SCOPE-6. Once the store has dropped the tombstone, the first mutation starts with the default,
/// also in a process with a cached state.
#[tokio::test]
async fn a_scope_without_a_tombstone_starts_with_the_default() {
    let clock = ManualClock::at("2026-11-15T12:00:00Z".parse().unwrap());
    let store = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
    let (tidelock, other) = (Tidelock::over(store.clone()), Tidelock::over(store));
    let brief = ScopeKind::custom("brief").ttl(Duration::from_secs(2));
    let basket = tidelock.scope::<Basket>(brief.clone(), "expires");
    let count = tidelock.scope::<i64>(brief, "counts");
    let deleted = tidelock.scope::<Basket>(ScopeKind::USER, "deleted");
    let there = other.scope::<Basket>(ScopeKind::USER, "deleted");
    basket.increment("total", 1).await.unwrap();
    count.increment("", 1).await.unwrap();
    deleted.increment("total", 1).await.unwrap();
    there.delete().await.unwrap();
    clock.advance(Duration::from_secs(2) + limits::TOMBSTONE_MEMORY);
    tidelock.queue("any").enqueue("thing").await.unwrap();
    until("it is forgotten", async || deleted.load().await.unwrap().revision.is_none()).await;
    assert_eq!(basket.increment("total", 1).await.unwrap().value, 1);
    assert_eq!(count.increment("", 1).await.unwrap().value, 1);
    assert_eq!(deleted.increment("total", 1).await.unwrap().value, 1);
}

/// SCOPE-8. The retention can be set before or after the operation's id.
#[tokio::test]
async fn the_retention_of_an_operation_can_be_set_in_any_order() {
    let clock = ManualClock::at("2026-11-15T12:00:00Z".parse().unwrap());
    let tidelock = Tidelock::over(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let minute = Duration::from_secs(60);
    let scope = tidelock.scope::<i64>(ScopeKind::USER, "ada");
    let late = || scope.mutation().operation_id("late").dedup_window(minute);
    let early = || scope.mutation().dedup_window(minute).operation_id("early");
    let orders: [&dyn Fn() -> tidelock::scopes::Mutation<i64>; 2] = [&late, &early];
    for mutation in orders {
        assert!(!mutation().increment("", 1).await.unwrap().replayed);
        clock.advance(minute - Duration::from_secs(1));
        assert!(mutation().increment("", 1).await.unwrap().replayed);
        clock.advance(Duration::from_secs(1));
        assert!(!mutation().increment("", 1).await.unwrap().replayed);
    }
}
