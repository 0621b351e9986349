//! Errors of a run's operations.

use std::error::Error;

use super::history::{RunFailure, RunOutcome};
use super::names::{InvalidName, RunId, StepName};

/// Why a step, a sleep, a wait or a child has no result. The error is recorded: replay returns the
/// same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The step failed and is not retried.
    #[error("step \"{step}\" failed after {attempts} attempts: {error}")]
    Failed {
        /// The step.
        step: StepName,
        /// The number of attempts.
        attempts: u32,
        /// The last error.
        error: String,
        /// Its code, if it [has one](crate::HandlerError::with_code).
        code: Option<String>,
    },
    /// The step timed out in every attempt.
    #[error("step \"{step}\" timed out: {error}")]
    TimedOut {
        /// The step.
        step: StepName,
        /// The timeout.
        error: String,
    },
    /// An at-most-once step was started, and its outcome is unknown.
    #[error("step \"{step}\" has an unknown outcome: {error}")]
    UnknownOutcome {
        /// The step.
        step: StepName,
        /// What is known.
        error: String,
    },
    /// The step was done, and its result cannot be stored.
    #[error("step \"{step}\" gave a result that cannot be stored: {error}")]
    Unstorable {
        /// The step.
        step: StepName,
        /// Why not.
        error: String,
    },
    /// The run is being cancelled, or its deadline has passed. Steps of
    /// [`RunCtx::cleanup`](super::RunCtx::cleanup) still run.
    #[error("the run is cancelled: {reason}")]
    Cancelled {
        /// The reason.
        reason: String,
    },
    /// The child did not complete.
    #[error("child \"{name}\", run {:?}, did not complete: {}", run.as_str(), ended(outcome))]
    Child {
        /// The child's name in its parent.
        name: StepName,
        /// The child.
        run: RunId,
        /// How it ended.
        outcome: RunOutcome,
    },
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A value cannot be recorded, sent or used as an input.
    #[error("\"{name}\": {error}")]
    Invalid {
        /// The operation.
        name: String,
        /// Why not.
        error: String,
    },
}

/// How a run ended, without its result.
fn ended(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Completed(_) => "its result is of another type".into(),
        RunOutcome::Failed(failure) => format!("it failed: {}", failure.error),
        RunOutcome::Cancelled(reason) => format!("it was cancelled: {reason}"),
        RunOutcome::Terminated(reason) => format!("it was terminated: {reason}"),
    }
}

impl StepError {
    /// Returns the step that failed, if one did.
    pub fn step(&self) -> Option<&StepName> {
        match self {
            Self::Failed { step, .. }
            | Self::TimedOut { step, .. }
            | Self::UnknownOutcome { step, .. }
            | Self::Unstorable { step, .. } => Some(step),
            _ => None,
        }
    }

    /// Returns the code of the step's error, or of the child's: branch on it, not on the text.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// async fn charge(cents: u64) -> Result<(), HandlerError> {
    ///     match cents {
    ///         0..100_000 => Ok(()),
    ///         _ => Err(HandlerError::fatal("over the limit of the card").with_code("declined")),
    ///     }
    /// }
    ///
    /// async fn checkout(ctx: RunCtx, cents: u64) -> Result<&'static str, StepError> {
    ///     match ctx.step("charge", |_key| charge(cents)).await {
    ///         Err(error) if error.code() == Some("declined") => Ok("ask for another card"),
    ///         charged => charged.map(|()| "paid"),
    ///     }
    /// }
    /// ```
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Failed { code, .. }
            | Self::Child { outcome: RunOutcome::Failed(RunFailure { code, .. }), .. } => {
                code.as_deref()
            }
            _ => None,
        }
    }

    /// Whether the run is being cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }

    /// The first `StepError` in a chain of errors.
    pub(crate) fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}
