//! In-memory scopes: a queue, deadlines, and no conflicts.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::scopes::MutationOutcome;
use tidelock::scopes::ScopeError;
use tidelock_test_stage::{TestStore, on_every_store};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::basket::{Basket, in_memory, put, shared};

on_every_store!(a_call_into_the_scope_from_inside_its_mutator_is_an_error_at_once);

/// A mutation in the background that adds this to the basket once it is allowed.
fn held(scope: &Scope<Basket>, item: &'static str) -> (JoinHandle<()>, Arc<Semaphore>) {
    let (scope, gate) = (scope.clone(), Arc::new(Semaphore::new(0)));
    let opened = gate.clone();
    let task = tokio::spawn(async move {
        let mutate = |mut basket: Basket| {
            let opened = opened.clone();
            async move {
                opened.acquire().await.unwrap().forget();
                basket.items.push(item.to_owned());
                Ok::<_, Infallible>((basket, ()))
            }
        };
        scope.mutate_async(mutate).await.unwrap();
    });
    (task, gate)
}

/// A mutation that is in the queue when this returns.
async fn queued(scope: &Scope<Basket>, item: &'static str) -> JoinHandle<()> {
    let scope = scope.clone();
    let task = tokio::spawn(async move { put(&scope, item).await });
    all_tasks_are_idle().await;
    task
}

/// With the clock paused, time passes only when no task can run.
async fn all_tasks_are_idle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

async fn items(scope: &Scope<Basket>) -> Vec<String> {
    scope.get().await.unwrap().items
}

/// SCOPE-1.
#[tokio::test(start_paused = true)]
async fn mutations_are_executed_in_fifo_order() {
    let scope = in_memory();
    let (first, gate) = held(&scope, "0");
    all_tasks_are_idle().await;
    let mut rest = Vec::new();
    for item in ["1", "2", "3", "4", "5"] {
        rest.push(queued(&scope, item).await);
    }
    assert_eq!(items(&scope).await, [""; 0], "no barging");
    gate.add_permits(1);
    first.await.unwrap();
    for task in rest {
        task.await.unwrap();
    }
    assert_eq!(items(&scope).await, ["0", "1", "2", "3", "4", "5"]);
}

/// SCOPE-1: a thousand concurrently, on two threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mutator_sees_the_previous_state_without_conflicts() {
    let scope = in_memory();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let scope = scope.clone();
        callers.spawn(async move {
            let mut sums = Vec::new();
            for _ in 0..20 {
                let mutated = scope.increment("total", 1).await.unwrap();
                assert_eq!(mutated.attempts, 1);
                sums.push(mutated.value);
            }
            sums
        });
    }
    let mut sums = callers.join_all().await.concat();
    sums.sort_unstable();
    assert_eq!(sums, (1..=1_000).collect::<Vec<_>>());
    assert_eq!(scope.load().await.unwrap().revision.unwrap().get(), 1_001);
}

/// SCOPE-2. Schedule 50: otherwise it would land after its caller got an error, and twice after a
/// retry.
#[tokio::test(start_paused = true)]
async fn a_timed_out_mutation_never_lands_and_the_queue_continues() {
    let scope = in_memory();
    let begun = Instant::now();
    let slow = |mut basket: Basket| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        basket.total += 1;
        Ok::<_, Infallible>((basket, ()))
    };
    let error = scope.mutate_async(slow).await.unwrap_err();
    assert!(
        matches!(error, ScopeError::TimedOut { budget, .. } if budget == Duration::from_secs(30)),
        "{error}"
    );
    assert!(error.to_string().contains("basket/here: mutation timed out after 30s"), "{error}");
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
    let again = scope.clone().within(Duration::from_secs(61)).mutate_async(slow).await.unwrap();
    assert!(again.is_applied());
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(scope.get().await.unwrap().total, 1, "once, however long one waits");
}

/// SCOPE-2.
#[tokio::test(start_paused = true)]
async fn the_wait_counts_and_a_mutator_that_waited_too_long_is_never_called() {
    let scope = in_memory();
    let (first, gate) = held(&scope, "0");
    all_tasks_are_idle().await;
    let called = AtomicBool::new(false);
    let hasty = scope.clone().within(Duration::from_secs(1));
    let error = hasty.mutate(|_| called.store(true, Ordering::SeqCst)).await.unwrap_err();
    assert!(matches!(error, ScopeError::TimedOut { .. }), "{error}");
    gate.add_permits(1);
    first.await.unwrap();
    put(&scope, "1").await;
    assert_eq!(items(&scope).await, ["0", "1"]);
    assert!(!called.load(Ordering::SeqCst));
}

/// SCOPE-2: it cannot be interrupted, but it can be too late.
#[tokio::test(start_paused = true)]
async fn a_mutator_that_never_waits_and_takes_too_long_changes_nothing() {
    let scope = in_memory();
    let busy = |mut basket: Basket| async move {
        // Like a computation of that length, without a yield.
        tokio::time::advance(Duration::from_secs(31)).await;
        basket.total = 1;
        Ok::<_, Infallible>((basket, ()))
    };
    let error = scope.mutate_async(busy).await.unwrap_err();
    assert!(matches!(error, ScopeError::TimedOut { .. }), "{error}");
    assert_eq!(scope.get().await.unwrap(), Basket::default());
}

/// SCOPE-2.
#[tokio::test(start_paused = true)]
async fn without_a_budget_a_mutation_takes_as_long_as_it_takes() {
    let scope = in_memory().without_deadline();
    let (first, gate) = held(&scope, "0");
    let second = queued(&scope, "1").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    gate.add_permits(1);
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(items(&scope).await, ["0", "1"]);
}

/// SCOPE-2. Schedule 51.
#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_leaves_the_order_unchanged() {
    let scope = in_memory();
    let (first, gate) = held(&scope, "0");
    all_tasks_are_idle().await;
    let (second, third) = (queued(&scope, "1").await, queued(&scope, "2").await);
    let fourth = queued(&scope, "3").await;
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    for task in [first, third, fourth] {
        task.await.unwrap();
    }
    assert_eq!(items(&scope).await, ["0", "2", "3"]);
}

/// SCOPE-2.
#[tokio::test(start_paused = true)]
async fn a_caller_cancelled_in_its_mutator_changes_nothing() {
    let scope = in_memory();
    let (first, gate) = held(&scope, "0");
    all_tasks_are_idle().await;
    let second = queued(&scope, "1").await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    second.await.unwrap();
    assert_eq!(items(&scope).await, ["1"]);
}

/// SCOPE-3. Schedule 52.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_mutator_leaves_the_state_and_the_queue_continues() {
    let scope = in_memory();
    let (first, gate) = held(&scope, "0");
    all_tasks_are_idle().await;
    let panicking = {
        let scope = scope.clone();
        tokio::spawn(async move {
            scope
                .mutate(|basket| -> () {
                    basket.items.push("half".to_owned());
                    panic!("on purpose")
                })
                .await
        })
    };
    all_tasks_are_idle().await;
    let third = queued(&scope, "2").await;
    gate.add_permits(1);
    first.await.unwrap();
    assert!(panicking.await.unwrap_err().is_panic());
    third.await.unwrap();
    assert_eq!(items(&scope).await, ["0", "2"]);
    put(&scope, "3").await;
    assert_eq!(items(&scope).await, ["0", "2", "3"], "nor is it mistaken for a call from inside");
}

/// SCOPE-4. Schedule 53: in memory and in the store, directly and indirectly.
async fn a_call_into_the_scope_from_inside_its_mutator_is_an_error_at_once(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for scope in [in_memory(), shared(&tidelock)] {
        let other = Scope::in_memory(ScopeKind::USER, "ada", 0_i64);
        let (inside, around) = (scope.clone(), other.clone());
        let begun = Instant::now();
        let both = |mut basket: Basket| {
            let (inside, around) = (inside.clone(), around.clone());
            async move {
                let direct = inside.increment("total", 1).await.unwrap_err();
                let corner = |count: i64| {
                    let inside = inside.clone();
                    async move { Ok::<_, Infallible>((count + 1, inside.delete().await.unwrap_err())) }
                };
                let corner = around.mutate_async(corner).await.unwrap();
                assert!(corner.is_applied(), "the other scope is free");
                basket.total = inside.get().await.unwrap().total + 1;
                Ok::<_, Infallible>((basket, [direct, corner.value]))
            }
        };
        for error in scope.mutate_async(both).await.unwrap().value {
            assert!(matches!(error, ScopeError::Reentered { .. }), "{error}");
            assert!(error.to_string().contains("from inside its own mutator"), "{error}");
        }
        assert!(!stage.is_simulated() || begun.elapsed().is_zero(), "at once");
        assert_eq!(scope.get().await.unwrap().total, 1);
        assert_eq!(other.get().await.unwrap(), 1);
        put(&scope, "free again").await;
    }
}

/// SCOPE-4.
#[tokio::test(start_paused = true)]
async fn a_scope_does_not_wait_for_another() {
    let (one, other) = (in_memory(), in_memory());
    let (first, gate) = held(&one, "0");
    all_tasks_are_idle().await;
    let begun = Instant::now();
    put(&other, "1").await;
    assert_eq!((items(&other).await, begun.elapsed()), (vec!["1".to_owned()], Duration::ZERO));
    gate.add_permits(1);
    first.await.unwrap();
}

/// SCOPE-1: a caller that is always served at once yields cooperatively.
#[tokio::test]
async fn a_task_that_mutates_on_and_on_does_not_keep_its_thread() {
    let scope = Scope::in_memory(ScopeKind::REQUEST, "busy", 0_i64);
    let turns = Arc::new(AtomicU32::new(0));
    let other = turns.clone();
    tokio::spawn(async move { other.fetch_add(1, Ordering::SeqCst) });
    let mut mutations = 0;
    while turns.load(Ordering::SeqCst) == 0 {
        scope.mutate(|count| *count += 1).await.unwrap();
        mutations += 1;
        assert!(mutations < 100_000, "the other task never had a turn");
    }
}

/// SCOPE-6, SCOPE-8: in memory as in the store.
#[tokio::test(start_paused = true)]
async fn in_memory_deletes_are_permanent_and_operations_happen_once() {
    let scope = in_memory();
    let first = scope.operation_id("pay").mutate(|basket| basket.items.len()).await.unwrap();
    assert_eq!((first.value, first.replayed), (0, false));
    put(&scope, "tea").await;
    let again = scope.operation_id("pay").mutate(|basket| basket.items.len()).await.unwrap();
    assert_eq!((again.value, again.outcome, again.replayed), (0, first.outcome, true));
    let brief = || scope.operation_id("brief").dedup_window(Duration::from_secs(1));
    brief().increment("total", 1).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(brief().increment("total", 1).await.unwrap().value, 2, "it was forgotten");

    let gone = scope.delete().await.unwrap().revision();
    assert_eq!(scope.delete().await.unwrap().outcome, MutationOutcome::Unchanged(gone));
    let error = scope.increment("total", 1).await.unwrap_err();
    assert!(matches!(&error, ScopeError::Gone { revision, .. } if *revision == gone), "{error}");
    assert!(scope.load().await.unwrap().is_gone());
    scope.create(Basket::default()).await.unwrap();
    let error = scope.create(Basket::default()).await.unwrap_err();
    assert!(matches!(error, ScopeError::Taken { .. }), "{error}");
    assert_eq!(scope.get().await.unwrap(), Basket::default());
}
