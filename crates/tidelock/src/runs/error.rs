//! What an operation of a run can give instead of a result.

use std::error::Error;

use super::history::RunOutcome;
use super::names::{InvalidName, RunId, StepName};

/// Why a step, a sleep, a wait or a child gave no result. It is recorded: a replay gives the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The step failed, and is not tried again.
    #[error("step \"{step}\" failed after {attempts} attempts: {error}")]
    Failed {
        /// Which.
        step: StepName,
        /// How often it was tried.
        attempts: u32,
        /// What went wrong the last time.
        error: String,
    },
    /// The step took too long, each time that it was tried.
    #[error("step \"{step}\" timed out: {error}")]
    TimedOut {
        /// Which.
        step: StepName,
        /// How long it had.
        error: String,
    },
    /// A step that must not be done twice was begun, and nobody knows what became of it.
    #[error("step \"{step}\" is ambiguous: {error}")]
    Ambiguous {
        /// Which.
        step: StepName,
        /// What is known.
        error: String,
    },
    /// The step was done, and its result cannot be stored.
    #[error("step \"{step}\" gave a result that cannot be stored: {error}")]
    Unstorable {
        /// Which.
        step: StepName,
        /// What is wrong with it.
        error: String,
    },
    /// The run is to cancel, or its time is up. Steps of
    /// [`RunCtx::cleanup`](super::RunCtx::cleanup) still run.
    #[error("the run is cancelled: {reason}")]
    Cancelled {
        /// Why.
        reason: String,
    },
    /// The child did not complete.
    #[error("child \"{name}\", run {:?}, did not complete: {}", run.as_str(), ended(outcome))]
    Child {
        /// What the parent calls it.
        name: StepName,
        /// The child.
        run: RunId,
        /// How it ended.
        outcome: RunOutcome,
    },
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// What was to be recorded, sent or started cannot be.
    #[error("\"{name}\": {error}")]
    Invalid {
        /// Where.
        name: String,
        /// What is wrong.
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
    /// The step that failed, if one did.
    pub fn step(&self) -> Option<&StepName> {
        match self {
            Self::Failed { step, .. }
            | Self::TimedOut { step, .. }
            | Self::Ambiguous { step, .. }
            | Self::Unstorable { step, .. } => Some(step),
            _ => None,
        }
    }

    /// Whether this says that the run is to cancel.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }

    /// The first of these in a chain of errors.
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
