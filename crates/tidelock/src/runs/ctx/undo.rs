//! Undoing the steps that were done, when the run fails.

use std::fmt;

use futures_util::future::BoxFuture;

use super::RunCtx;
use crate::runs::{StepError, StepName};

/// What undoes a step, as a recorded step of this name.
pub(super) type Undoing =
    Box<dyn for<'c> Fn(&'c RunCtx, StepName) -> BoxFuture<'c, Result<(), StepError>> + Send + Sync>;

/// A step that was done, and how it is undone.
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
    /// Undoes the steps that said how, the latest first, each as a recorded step of its own
    /// (`charge~compensation`). Called by itself when the function ends in an error; call it to
    /// undo and go on. A step is undone once.
    ///
    /// # Errors
    /// The first that could not be undone; the others were still tried.
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

    /// Keeps in mind how a step that was done is undone.
    pub(super) fn remember(&self, step: &StepName, undo: Option<Undoing>) {
        let Some(undo) = undo else { return };
        self.activation.state().undo.push(Undo { step: step.clone(), undo });
    }
}
