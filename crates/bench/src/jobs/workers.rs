//! Processes that work a backlog off: Tidelock's or a peer's, by the same line protocol.

use std::thread;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;

use super::work::Counted;
use crate::child::Child;
use crate::clock;
use crate::failure::Failure;

/// How often the processes are asked how far they are.
const GLANCE: Duration = Duration::from_millis(10);
/// Processes that finish nothing for as long are stuck.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Workers(Vec<Child>);

impl Workers {
    pub(super) fn start(
        processes: usize,
        start: impl Fn() -> Result<Child, Failure>,
    ) -> Result<Self, Failure> {
        block_in_place(|| (0..processes).map(|_| start()).collect::<Result<_, _>>()).map(Self)
    }

    /// Works off this many jobs, each once, and returns the jobs per second: from the order to
    /// begin to the last job.
    pub(super) fn drain(mut self, jobs: usize) -> Result<f64, Failure> {
        block_in_place(|| {
            let begun = clock::now();
            self.ask("work")?;
            self.wait_until(jobs as u64)?;
            let ended = self.count("stop")?;
            if ended.done != jobs as u64 {
                let done = ended.done;
                return Err(Failure::Answer(format!("{done} jobs were done, of {jobs}")));
            }
            Ok(rate(jobs, ended.last.saturating_sub(begun)))
        })
    }

    fn wait_until(&mut self, jobs: u64) -> Result<(), Failure> {
        let mut progress = (0, Instant::now());
        loop {
            let done = self.count("count")?.done;
            if done >= jobs {
                return Ok(());
            }
            if done > progress.0 {
                progress = (done, Instant::now());
            }
            if progress.1.elapsed() > PATIENCE {
                return Err(Failure::Answer(format!(
                    "{done} of {jobs} jobs were done, and none in the last {} s",
                    PATIENCE.as_secs()
                )));
            }
            thread::sleep(GLANCE);
        }
    }

    /// What all of them have done.
    fn count(&mut self, order: &str) -> Result<Counted, Failure> {
        let none = Counted { done: 0, first: u64::MAX, last: 0 };
        self.ask(order)?.iter().try_fold(none, |all, line| {
            let one: Counted = serde_json::from_str(line)
                .map_err(|_| Failure::Answer(format!("a process ended in the middle: {line:?}")))?;
            Ok(Counted {
                done: all.done + one.done,
                first: all.first.min(one.first),
                last: all.last.max(one.last),
            })
        })
    }

    fn ask(&mut self, order: &str) -> Result<Vec<String>, Failure> {
        self.0.iter_mut().try_for_each(|child| child.tell(order))?;
        self.0.iter_mut().map(Child::hear).collect()
    }
}

#[allow(clippy::cast_precision_loss)] // never as many as 2^53
fn rate(jobs: usize, micros: u64) -> f64 {
    jobs as f64 / (micros.max(1) as f64 / 1e6)
}
