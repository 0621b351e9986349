//! What a workflow's function does its work with.
//!
//! Everything that it does through this is recorded under a name, and found again by it in a
//! replay: names are unique in a run; in a loop, put the number of the round in. Everything between
//! must come out the same each time: time, chance and the outside world are asked through this.
//!
//! Operations can be awaited together, with `tokio::join!`, `try_join!` or `futures`' combinators:
//! a replay hands results over in the order in which they were first known.

mod child;
mod effect;
mod race;
mod status;
mod step;
mod step_key;
mod time;
mod transact;
mod undo;
mod value;
mod wait;

use std::sync::Arc;

use serde::Serialize;
use tidelock_store::RawJson;

use super::activation::{Activation, Exit, Op};
use super::history::{Interrupted, Interruptible};
use super::replay::End;
use super::{RunId, StepError, StepName};
use crate::handle::Tidelock;

pub use child::ChildRun;
pub use race::RaceWinner;
pub use step::{OnUnknownOutcome, Retry, Step};
pub use step_key::StepKey;
pub use transact::TransactStep;
pub use wait::WaitForSignal;

pub(crate) use undo::Undo;

/// A run's way to everything that is recorded.
#[derive(Debug)]
pub struct RunCtx {
    activation: Arc<Activation>,
    /// Whether this goes on though the run is to cancel.
    cleanup: bool,
}

impl RunCtx {
    pub(crate) fn new(activation: &Arc<Activation>) -> Self {
        Self { activation: activation.clone(), cleanup: false }
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        self.activation.run()
    }

    /// How often the run has begun: 1, and one more each time that it continued as new.
    pub fn generation(&self) -> u32 {
        self.activation.generation()
    }

    /// Everything else that Tidelock can do. It is not recorded: use it inside steps.
    pub fn tidelock(&self) -> &Tidelock {
        &self.activation.tidelock
    }

    /// The same, for cleaning up: its operations go on when the run is to cancel, or its time is
    /// up.
    #[must_use]
    pub fn cleanup(&self) -> Self {
        Self { activation: self.activation.clone(), cleanup: true }
    }

    /// Begins the run again with this input and an empty history, in one commit; what runs beside
    /// this is dropped. Signals that nobody received are kept. For runs without an end, whose
    /// history would grow and grow.
    ///
    /// Never ready, so that it can stand wherever a result is expected: `return
    /// ctx.continue_as_new(&next).await`.
    ///
    /// # Errors
    /// If the input cannot be stored.
    pub async fn continue_as_new<T, E: From<StepError>>(
        &self,
        input: &(impl Serialize + ?Sized),
    ) -> Result<T, E> {
        let input = RawJson::new(input).map_err(|e| invalid("continue_as_new", &e))?;
        self.activation.state().leave(Exit::Continue(input));
        futures_util::future::pending().await
    }

    /// The error for an operation that was cut short.
    fn cancelled(&self) -> StepError {
        let mut state = self.activation.state();
        state.told = true;
        let reason = state.cancel().map(|cancel| cancel.reason.clone()).unwrap_or_default();
        StepError::Cancelled { reason }
    }

    /// What is recorded is not what the function takes it for: the code does not fit.
    pub(crate) async fn unfit<T>(&self, name: &StepName, error: &tidelock_store::StoreError) -> T {
        let error = format!(
            "the code does not fit the history: what is recorded for {:?} cannot be read: {}",
            name.as_str(),
            error.context()
        );
        self.activation.state().leave(Exit::Park(error));
        futures_util::future::pending().await
    }
}

/// Records that an operation was cut short.
fn interrupt(op: &Op<'_>, name: &StepName, kind: Interruptible) {
    let entry = Interrupted { name: name.clone(), kind };
    op.end(entry, End::Interrupted, false).expect("a name and a kind can be stored");
}

fn invalid(name: &str, error: &tidelock_store::StoreError) -> StepError {
    StepError::Invalid { name: name.into(), error: error.context().into() }
}
