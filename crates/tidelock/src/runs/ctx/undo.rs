//! Compensation (saga): undoing completed steps when the run fails.

use std::fmt;

use futures_util::future::BoxFuture;

use super::RunCtx;
use crate::runs::{StepError, StepName};

/// The compensation as a recorded step of this name.
pub(super) type Undoing =
    Box<dyn for<'c> Fn(&'c RunCtx, StepName) -> BoxFuture<'c, Result<(), StepError>> + Send + Sync>;

/// A completed step and its compensation.
pub(crate) struct Undo {
    step: StepName,
    undo: Undoing,
}

impl fmt::Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undo").field("step", &self.step).finish_non_exhaustive()
    }
}

impl RunCtx {
    /// Compensates completed steps, latest first, each as a recorded step (`charge~compensation`).
    ///
    /// It is called automatically when the function returns an error; call it to compensate and
    /// continue. A step is compensated once.
    ///
    /// # Errors
    /// Returns the first compensation that failed; the others were still tried.
    pub async fn compensate(&self) -> Result<(), StepError> {
        let cleanup = self.cleanup();
        let mut failed = None;
        loop {
            let undo = self.activation.state().undo.pop();
            let Some(undo) = undo else { break };
            self.activation.state().undone = true;
            if let Err(error) = (undo.undo)(&cleanup, undo.step.compensation()).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Registers the compensation of a completed step.
    pub(super) fn remember(&self, step: &StepName, undo: Option<Undoing>) {
        let Some(undo) = undo else { return };
        self.activation.state().undo.push(Undo { step: step.clone(), undo });
    }
}
