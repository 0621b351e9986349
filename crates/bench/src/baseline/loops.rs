//! A side of blocking loops, each on its own thread.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use tidelock::store::async_trait;
use tokio::task::block_in_place;

use crate::failure::Failure;
use crate::measure::{Side, Slice};

/// A loop over groups.
pub(crate) trait BareLoop: Send {
    /// Does one group after the other, each in one transaction, for as long as there is time for
    /// one more; returns the number of operations.
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure>;
}

pub(super) struct Loops(pub(super) Vec<Box<dyn BareLoop>>);

#[async_trait]
impl Side for Loops {
    /// At least one group of each loop, while the other side pauses.
    async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure> {
        let begun = Instant::now();
        let ops = block_in_place(|| run_all(&mut self.0, begun, slice))?;
        Ok(Slice { ops, elapsed: begun.elapsed(), times: Vec::new() })
    }
}

fn run_all(
    loops: &mut [Box<dyn BareLoop>],
    begun: Instant,
    slice: Duration,
) -> Result<u64, Failure> {
    thread::scope(|scope| {
        let run = |baseline: &'_ mut Box<dyn BareLoop>| {
            let mut first = true;
            baseline.run(&mut || mem::take(&mut first) || begun.elapsed() < slice)
        };
        let threads: Vec<_> =
            loops.iter_mut().map(|baseline| scope.spawn(move || run(baseline))).collect();
        threads
            .into_iter()
            .map(|baseline| baseline.join().expect("a baseline loop returns its errors"))
            .sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_loop_runs_at_least_once() {
        struct Loop;
        impl BareLoop for Loop {
            fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
                Ok(std::iter::repeat_with(time_for_more).take_while(|more| *more).count() as u64)
            }
        }
        let mut loops = Loops(vec![Box::new(Loop), Box::new(Loop)]);
        assert_eq!(loops.run_slice(Duration::ZERO).await.unwrap().ops, 2);
    }
}
