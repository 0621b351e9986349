//! A side of concurrent callers, each with one operation after the other.

use std::mem;
use std::time::{Duration, Instant};

use tidelock::store::async_trait;
use tokio::task::{JoinError, coop};

use super::{Side, Slice};
use crate::failure::Failure;

/// A caller in a loop that waits for each answer.
pub(crate) trait Caller: Send + 'static {
    /// Makes the next call; returns the number of operations, for workloads where that is not one.
    fn call(&mut self) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// Concurrent callers.
pub(crate) struct Callers<C>(pub(crate) Vec<C>);

#[async_trait]
impl<C: Caller> Side for Callers<C> {
    /// Each makes at least one call. The time is from the first start to the last end.
    async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure> {
        let begun = Instant::now();
        let callers = mem::take(&mut self.0).into_iter();
        let tasks: Vec<_> =
            callers.map(|caller| tokio::spawn(call_until(caller, begun + slice))).collect();
        let mut all = Slice::default();
        for task in tasks {
            let (caller, run_slice) = task.await.map_err(|e| panicked(&e))??;
            self.0.push(caller);
            all.add(run_slice);
        }
        all.elapsed = begun.elapsed();
        Ok(all)
    }
}

async fn call_until<C: Caller>(mut caller: C, end: Instant) -> Result<(C, Slice), Failure> {
    let mut run_slice = Slice::default();
    let mut before = Instant::now();
    loop {
        run_slice.ops += caller.call().await?;
        let after = Instant::now();
        run_slice.times.push(after.duration_since(before));
        if after >= end {
            return Ok((caller, run_slice));
        }
        // A store that answers at once would starve the other callers of the thread.
        coop::consume_budget().await;
        before = Instant::now();
    }
}

fn panicked(error: &JoinError) -> Failure {
    Failure::Answer(format!("a caller ended before its time: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_caller_is_counted_and_returns_for_the_next_slice() {
        struct Instantly;
        impl Caller for Instantly {
            async fn call(&mut self) -> Result<u64, Failure> {
                Ok(2)
            }
        }
        let mut callers = Callers(vec![Instantly, Instantly]);
        for _ in 0..2 {
            let run_slice = callers.run_slice(Duration::from_millis(1)).await.unwrap();
            assert!(run_slice.times.len() >= 2);
            assert_eq!(run_slice.ops, 2 * run_slice.times.len() as u64);
        }
    }
}
