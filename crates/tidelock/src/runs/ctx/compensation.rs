//! Compensation (saga): undoing completed steps when the run fails.

use std::fmt;

use futures_util::future::BoxFuture;

use super::RunCtx;
use crate::runs::{StepError, StepName};

/// The compensation as a recorded step of this name.
pub(super) type CompensationStep =
    Box<dyn for<'c> Fn(&'c RunCtx, StepName) -> BoxFuture<'c, Result<(), StepError>> + Send + Sync>;

/// A completed step and its compensation.
pub(crate) struct Compensation {
    step: StepName,
    run: CompensationStep,
}

impl fmt::Debug for Compensation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compensation").field("step", &self.step).finish_non_exhaustive()
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
            let next = self.activation.pop_compensation();
            let Some(Compensation { step, run }) = next else { break };
            if let Err(error) = run(&cleanup, step.compensation()).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Registers the compensation of a completed step.
    pub(super) fn remember(&self, step: &StepName, run: Option<CompensationStep>) {
        let Some(run) = run else { return };
        self.activation.push_compensation(Compensation { step: step.clone(), run });
    }
}
