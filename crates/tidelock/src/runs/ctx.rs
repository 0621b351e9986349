//! The context of a workflow function.
//!
//! Every operation of the context is recorded under a name, and replay finds it by that name. Names
//! are unique in a run; in a loop, include the iteration's number. The code between operations must
//! be deterministic: use the context for time, randomness and the outside world.
//!
//! Operations can be awaited together, with `tokio::join!`, `try_join!` or the combinators of
//! `futures`: replay delivers results in the order in which they were first known.

mod attempts;
mod attributes;
mod child;
mod compensation;
mod race;
mod racing;
mod recorded_values;
mod select;
mod signal;
mod step;
mod step_key;
mod transact;

use std::sync::Arc;

use serde::Serialize;
use tidelock_store::RawJson;

use super::activation::{Activation, Op};
use super::history::{Interrupted, Interruptible};
use super::replay::{Durability, Exit, Replay};
use super::{RunId, StepError, StepName};
use crate::handle::Tidelock;

pub use child::ChildRun;
pub use race::RaceWinner;
pub use signal::{WaitForSignal, WaitForSignalWithin};
pub use step::{OnUnknownOutcome, Step};
pub use step_key::StepKey;
pub use transact::TransactStep;

pub(crate) use compensation::Compensation;

/// The context of a run: its durable operations.
#[derive(Debug)]
pub struct RunCtx {
    activation: Arc<Activation>,
    /// Whether its operations continue during cancellation.
    cleanup: bool,
}

impl RunCtx {
    pub(crate) fn new(activation: &Arc<Activation>) -> Self {
        Self { activation: activation.clone(), cleanup: false }
    }

    /// Returns the run's id.
    pub fn run(&self) -> &RunId {
        self.activation.run()
    }

    /// Returns the generation: 1, plus 1 for each time the run continued as new.
    pub fn generation(&self) -> u32 {
        self.activation.generation()
    }

    /// Returns the Tidelock handle. Its calls are not recorded: use it inside steps.
    pub fn tidelock(&self) -> &Tidelock {
        &self.activation.tidelock
    }

    /// Returns a context for clean-up: its operations continue during cancellation, or after the
    /// deadline.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// async fn rent(ctx: RunCtx, machine: String) -> Result<(), StepError> {
    ///     ctx.step("start", |_key| async { Ok::<_, HandlerError>(()) }).await?;
    ///     let done = ctx.wait_for_signal::<()>("done").await;
    ///     // Also if the run was cancelled while it waited.
    ///     let stop = |_key| async { Ok::<_, HandlerError>(println!("stop {machine}")) };
    ///     ctx.cleanup().step("stop", stop).await?;
    ///     done
    /// }
    /// ```
    #[must_use]
    pub fn cleanup(&self) -> Self {
        Self { activation: self.activation.clone(), cleanup: true }
    }

    /// Restarts the run with this input and an empty history, in one commit.
    ///
    /// Concurrent operations are dropped. Signals that were not received are kept. Use it in runs
    /// without an end, whose history would otherwise grow without bound.
    ///
    /// The future never completes, so it fits where a result is expected: `return
    /// ctx.continue_as_new(&next).await`.
    ///
    /// # Errors
    /// Returns an error if the input cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// async fn counter(ctx: RunCtx, count: u64) -> Result<u64, StepError> {
    ///     match ctx.wait_for_signal::<String>("next").await?.as_str() {
    ///         "stop" => Ok(count),
    ///         _ => ctx.continue_as_new(&(count + 1)).await,
    ///     }
    /// }
    /// ```
    pub async fn continue_as_new<T, E: From<StepError>>(
        &self,
        input: &(impl Serialize + ?Sized),
    ) -> Result<T, E> {
        let input = RawJson::new(input).map_err(|e| invalid("continue_as_new", &e))?;
        self.activation.inside().await;
        self.activation.replay(|replay| replay.leave(Exit::Continue(input)));
        futures_util::future::pending().await
    }

    /// Whether the run is being cancelled, which ends its operations.
    fn is_cancelled(&self) -> bool {
        !self.cleanup && self.activation.replay(|replay| replay.is_cancelled())
    }

    /// The error of a cancelled operation.
    fn cancelled(&self) -> StepError {
        StepError::Cancelled { reason: self.activation.replay(Replay::observe_cancel) }
    }

    /// Parks the run: the recorded data cannot be decoded as the function's type, so the code does
    /// not fit.
    pub(crate) async fn unfit<T>(&self, name: &StepName, error: &tidelock_store::StoreError) -> T {
        self.activation.replay(|replay| replay.unfit(name, error.context()));
        futures_util::future::pending().await
    }
}

/// Records that an operation was cancelled.
fn interrupt(op: &Op<'_>, name: &StepName, kind: Interruptible) {
    let entry = Interrupted { name: name.clone(), kind };
    op.end(entry, Durability::Lazy).expect("a name and a kind can be stored");
}

fn invalid(name: &str, error: &tidelock_store::StoreError) -> StepError {
    StepError::Invalid { name: name.into(), error: error.context().into() }
}
