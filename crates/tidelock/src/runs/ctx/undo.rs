//! Undoing the steps that were done, when the run fails.

use std::fmt;

use futures_util::future::BoxFuture;
use tidelock_store::Json;

use super::{Ctx, StepKey};
use crate::reactions::Failure;
use crate::runs::{StepError, StepName};

/// What undoes a step, given its result.
type Undoing = Box<dyn Fn(Json, StepKey) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

/// A step that was done, and how it is undone.
pub(crate) struct Undo {
    pub(super) step: StepName,
    pub(super) result: Json,
    pub(super) undo: Undoing,
}

impl fmt::Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undo").field("step", &self.step).finish_non_exhaustive()
    }
}

impl Ctx {
    /// Undoes the steps that said how, the latest first, each as a recorded step of its own (`charge~compensation`). Called by
    /// itself when the function ends in an error; call it to undo and go on. A step is undone once.
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
            let name = undo.step.compensation();
            let step = cleanup.checked_step(Ok(name), |key| (undo.undo)(undo.result.clone(), key));
            if let Err(error) = step.await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
