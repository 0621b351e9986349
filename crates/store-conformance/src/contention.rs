//! Contention: many concurrent callers, over many handles.
//!
//! Racers wait at a barrier and then go; the assertions hold in every order. Every loop is bounded,
//! so that a store that accepts no racer fails instead of hanging.

mod leases;
mod log;
mod records;
mod yielding;

use std::future::Future;
use std::sync::Arc;

use tidelock_store::Store;
use tokio::sync::Barrier;

use crate::case::{Case, World};

pub(crate) fn cases() -> Vec<Case> {
    [log::cases(), records::cases(), leases::cases(), yielding::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// More racers than this share handles, so that they meet in one handle's queue as well as in the
/// store. Opening another dozen would take longer than the race.
const HANDLES: usize = 16;

/// Runs this for all racers at once and returns each result.
async fn race<T, F>(
    world: &World,
    racers: usize,
    run: impl Fn(usize, Arc<dyn Store>) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(racers));
    let mut tasks = Vec::with_capacity(racers);
    for racer in 0..racers {
        let run = run(racer, world.nth(racer % HANDLES).await);
        let start = start.clone();
        tasks.push(tokio::spawn(async move {
            start.wait().await;
            run.await
        }));
    }
    let mut results = Vec::with_capacity(racers);
    for task in tasks {
        results.push(task.await.expect("a racer gets through"));
    }
    results
}
