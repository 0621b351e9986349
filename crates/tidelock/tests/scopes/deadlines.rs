//! In-memory scopes: many waiters, each with its own deadline, on one runtime or several.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::scopes::ScopeError;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::basket::{Basket, in_memory};

const LONG: Duration = Duration::from_secs(3600);

/// A mutation in the background that never ends.
fn stuck(scope: &Scope<Basket>) -> JoinHandle<()> {
    let scope = scope.clone().without_deadline();
    tokio::spawn(async move {
        let never = |_| pending::<Result<(Basket, ()), Infallible>>();
        scope.mutate_async(never).await.unwrap();
    })
}

/// How long a caller waited until it timed out.
async fn waited(scope: Scope<Basket>, seconds: u64) -> u64 {
    let begun = Instant::now();
    let error = scope.within(Duration::from_secs(seconds)).increment("total", 1).await.unwrap_err();
    assert!(matches!(error, ScopeError::TimedOut { .. }), "{error}");
    begun.elapsed().as_secs()
}

/// A runtime whose clock advances only while it is driven.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// SCOPE-2.
#[tokio::test(start_paused = true)]
async fn each_waiter_times_out_at_its_own_deadline() {
    let scope = in_memory();
    let stuck = stuck(&scope);
    tokio::task::yield_now().await;
    let seconds = [30, 10, 20, 10, 40, 5];
    let waiting: Vec<_> =
        seconds.map(|seconds| tokio::spawn(waited(scope.clone(), seconds))).into();
    for (seconds, waiting) in seconds.into_iter().zip(waiting) {
        assert_eq!(waiting.await.unwrap(), seconds);
    }
    stuck.abort();
}

/// SCOPE-2.
#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_does_not_affect_other_deadlines() {
    let scope = in_memory();
    let stuck = stuck(&scope);
    tokio::task::yield_now().await;
    let first = tokio::spawn(waited(scope.clone(), 10));
    tokio::task::yield_now().await;
    let second = tokio::spawn(waited(scope.clone(), 20));
    tokio::task::yield_now().await;
    first.abort();
    assert_eq!(second.await.unwrap(), 20);
    stuck.abort();
}

/// SCOPE-2: a paused clock fires no timer.
#[test]
fn an_idle_runtime_delays_no_deadline_on_another() {
    let scope = in_memory();
    let (left, right) = (runtime(), runtime());
    let mut waiting = None;
    left.block_on(async {
        stuck(&scope);
        waiting = Some(tokio::spawn(waited(scope.clone(), 10)));
        tokio::task::yield_now().await;
    });
    let told =
        right.block_on(async { tokio::time::timeout(LONG, waited(scope.clone(), 20)).await });
    assert_eq!(told, Ok(20));
    assert_eq!(left.block_on(waiting.unwrap()).unwrap(), 10, "and has its own when it goes on");
}

/// SCOPE-2.
#[test]
fn a_shut_down_runtime_delays_no_deadline_on_another() {
    let scope = in_memory();
    let (left, right) = (runtime(), runtime());
    right.block_on(async {
        stuck(&scope);
        tokio::task::yield_now().await;
    });
    left.block_on(async {
        tokio::spawn(waited(scope.clone(), 10));
        tokio::task::yield_now().await;
    });
    drop(left);
    let told =
        right.block_on(async { tokio::time::timeout(LONG, waited(scope.clone(), 20)).await });
    assert_eq!(told, Ok(20));
}
