//! A worker that starts runs, sends each the signal that it waits for, and waits for their results.
//!
//! It has few runs under way at once, so that whoever drives them, however slow, is never far
//! behind. That it is about to ask for a run it writes down before: if it dies, the supervisor asks
//! for it again.

use std::sync::Arc;
use std::time::Duration;

use tidelock::runs::RunError;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::join;
use crate::caller::{Backoff, Bug, Caller};
use crate::dice::Rng;
use crate::errand::{self, First};
use crate::journal::Entry;
use crate::part::WorkerSpec;
use crate::pipe::Orders;
use crate::trouble::Trouble;

/// Runs under way at once.
const AT_ONCE: u64 = 6;
/// How long a result is waited for before it is asked whether to finish.
const GLANCE: Duration = Duration::from_millis(300);

pub(super) async fn work(
    part: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (mut callers, mut dice) = (JoinSet::new(), Rng::seeded(part.seed));
    for nth in 0..AT_ONCE {
        let (part, caller, orders) = (part.clone(), caller.clone(), orders.clone());
        let dice = Rng::seeded(dice.next());
        callers.spawn(Starter { part, caller, orders, dice, nth }.start_until_told());
    }
    join(callers).await
}

struct Starter {
    part: Arc<WorkerSpec>,
    caller: Caller,
    orders: Orders,
    dice: Rng,
    nth: u64,
}

impl Starter {
    async fn start_until_told(mut self) -> Result<(), Bug> {
        for count in 0u64.. {
            if self.orders.is_finishing() {
                break;
            }
            let run = self.part.space.run(&format!("{}-{}-{count}", self.part.name, self.nth));
            self.caller.note(&Entry::Ordered(run.clone()));
            let first = if self.dice.one_in(3) { First::Signal } else { First::Start };
            errand::ask_for(&self.caller, &self.part.space, &run, first).await?;
            self.wait_for_result(&run).await?;
            sleep(self.dice.millis(1, 40)).await;
        }
        Ok(())
    }

    /// Until it is there, or there is no more time for it.
    async fn wait_for_result(&self, run: &str) -> Result<(), Bug> {
        let mut backoff = Backoff::new();
        while !self.orders.is_finishing() {
            match errand::handle(&self.caller, run).result::<String>().within(GLANCE).await {
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
