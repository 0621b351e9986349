//! Starter: starts runs, signals each, and waits for their results.
//!
//! It has few runs in flight, so that runners, however slow, are never far behind. It journals a
//! run before it requests it: if it dies, the supervisor requests it again.

use std::sync::Arc;
use std::time::Duration;

use tidelock::runs::RunError;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::join;
use crate::caller::{Backoff, Bug, Caller};
use crate::journal::Entry;
use crate::pipe::Orders;
use crate::rng::Rng;
use crate::sample_run::{self, First};
use crate::trouble::Trouble;
use crate::worker_spec::WorkerSpec;

/// Runs in flight.
const AT_ONCE: u64 = 6;
/// How long to wait for a result before checking for orders.
const GLANCE: Duration = Duration::from_millis(300);

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (mut callers, mut rng) = (JoinSet::new(), Rng::seeded(spec.seed));
    for nth in 0..AT_ONCE {
        let (spec, caller, orders) = (spec.clone(), caller.clone(), orders.clone());
        let rng = Rng::seeded(rng.next());
        callers.spawn(Starter { spec, caller, orders, rng, nth }.start_until_told());
    }
    join(callers).await
}

struct Starter {
    spec: Arc<WorkerSpec>,
    caller: Caller,
    orders: Orders,
    rng: Rng,
    nth: u64,
}

impl Starter {
    async fn start_until_told(mut self) -> Result<(), Bug> {
        for count in 0u64.. {
            if self.orders.is_finishing() {
                break;
            }
            let run = self.spec.space.run(&format!("{}-{}-{count}", self.spec.name, self.nth));
            self.caller.note(&Entry::Ordered(run.clone()));
            let first = if self.rng.one_in(3) { First::Signal } else { First::Start };
            sample_run::ask_for(&self.caller, &self.spec.space, &run, first).await?;
            self.wait_for_result(&run).await?;
            sleep(self.rng.millis(1, 40)).await;
        }
        Ok(())
    }

    /// Waits for the result, or until the worker should finish.
    async fn wait_for_result(&self, run: &str) -> Result<(), Bug> {
        let mut backoff = Backoff::new();
        while !self.orders.is_finishing() {
            match sample_run::handle(&self.caller, run)
                .typed::<String>()
                .result()
                .within(GLANCE)
                .await
            {
                Ok(result) => {
                    self.caller.note(&Entry::Told { run: run.to_owned(), result });
                    return Ok(());
                }
                Err(RunError::StillOpen { .. }) => {}
                Err(RunError::Store(error)) => backoff.after(&Trouble::from(error)).await?,
                Err(other) => return Err(Bug(other.to_string())),
            }
        }
        Ok(())
    }
}
