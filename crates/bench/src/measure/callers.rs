//! A side of callers, who do one operation after the other, all at once.

use std::mem;
use std::time::{Duration, Instant};

use tidelock::async_trait;
use tokio::task::{JoinError, coop};

use super::{Side, Slice};
use crate::failure::Failure;

/// Somebody who calls again and again, and waits for each answer.
pub(crate) trait Caller: Send + 'static {
    /// Makes the next call; gives the number of operations it was, for workloads where that is not
    /// one.
    fn call(&mut self) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// All who call.
pub(crate) struct Callers<C>(pub(crate) Vec<C>);

#[async_trait]
impl<C: Caller> Side for Callers<C> {
    /// Each makes at least one call. The time is that from the first one's start to the last one's
    /// end.
    async fn lap(&mut self, slice: Duration) -> Result<Slice, Failure> {
        let begun = Instant::now();
        let callers = mem::take(&mut self.0).into_iter();
        let tasks: Vec<_> =
            callers.map(|caller| tokio::spawn(call_until(caller, begun + slice))).collect();
        let mut all = Slice::default();
        for task in tasks {
            let (caller, lap) = task.await.map_err(|e| panicked(&e))??;
            self.0.push(caller);
            all.add(lap);
        }
        all.elapsed = begun.elapsed();
        Ok(all)
    }
}

async fn call_until<C: Caller>(mut caller: C, end: Instant) -> Result<(C, Slice), Failure> {
    let mut lap = Slice::default();
    let mut before = Instant::now();
    loop {
        lap.ops += caller.call().await?;
        let after = Instant::now();
        lap.times.push(after.duration_since(before));
        if after >= end {
            return Ok((caller, lap));
        }
        // A store that answers at once would never let another caller have the thread.
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
    async fn every_caller_is_counted_and_comes_back_for_the_next_lap() {
        struct Instantly;
        impl Caller for Instantly {
            async fn call(&mut self) -> Result<u64, Failure> {
                Ok(2)
            }
        }
        let mut callers = Callers(vec![Instantly, Instantly]);
        for _ in 0..2 {
            let lap = callers.lap(Duration::from_millis(1)).await.unwrap();
            assert!(lap.times.len() >= 2);
            assert_eq!(lap.ops, 2 * lap.times.len() as u64);
        }
    }
}
