//! Errors of run requests.

use std::time::Duration;

use tidelock_store::StoreError;

use crate::runs::{
    InvalidName, RunFailure, RunId, RunState, RunStatus, WorkflowName, WorkflowVersion,
};

/// Why a request to a run failed, or a run has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The run does not exist.
    #[error("run {:?}: it does not exist; start it first", run.as_str())]
    NoRun {
        /// The run.
        run: RunId,
    },
    /// The run existed, and its retention is over.
    #[error("run {:?}: it has ended, and was removed when its retention was over", run.as_str())]
    Removed {
        /// The run.
        run: RunId,
    },
    /// The run has ended.
    #[error("run {:?}: it is {}, so it {why}", run.as_str(), state.as_str())]
    Ended {
        /// The run.
        run: RunId,
        /// Its state.
        state: RunState,
        /// The refused operation.
        why: &'static str,
    },
    /// Another run exists under this id.
    #[error(
        "run {:?}: it is there, of workflow {:?} with input {there_input}; asked for was workflow {:?} with input \
         {asked_input}; use another id for another run",
        run.as_str(), there.as_str(), asked.as_str()
    )]
    OtherRun {
        /// The run.
        run: RunId,
        /// The workflow of the existing run.
        there: WorkflowName,
        /// The digest of its input.
        there_input: String,
        /// The requested workflow.
        asked: WorkflowName,
        /// The digest of the requested input.
        asked_input: String,
    },
    /// No process has registered the workflow.
    #[error(
        "workflow {:?}: no process has registered it with this store yet; register it with AppBuilder::workflow, or say \
         which version is meant",
        workflow.as_str()
    )]
    UnknownWorkflow {
        /// The workflow.
        workflow: WorkflowName,
    },
    /// The workflow's function cannot decode the input.
    #[error(
        "input of run {:?}: workflow {:?}, version {}, cannot read it: {error}", run.as_str(), workflow.as_str(), version.0
    )]
    Input {
        /// The run.
        run: RunId,
        /// The workflow.
        workflow: WorkflowName,
        /// Its version.
        version: WorkflowVersion,
        /// The decoding error.
        error: String,
    },
    /// A signal with this id exists, with another name or payload.
    #[error("run {:?}: signal {id:?} is there with another name or payload; use another id for another signal", run.as_str())]
    OtherSignal {
        /// The run.
        run: RunId,
        /// The signal's id.
        id: String,
    },
    /// Only a failed run can be retried.
    #[error("run {:?}: it is {}, and only a failed run can be retried", run.as_str(), state.as_str())]
    NotFailed {
        /// The run.
        run: RunId,
        /// Its state.
        state: RunState,
    },
    /// A run whose steps were compensated cannot be retried.
    #[error("run {:?}: its steps were compensated when it failed, so it cannot continue; start another run", run.as_str())]
    Compensated {
        /// The run.
        run: RunId,
    },
    /// A run whose deadline has passed cannot be retried.
    #[error("run {:?}: its deadline has passed; start another run", run.as_str())]
    OutOfTime {
        /// The run.
        run: RunId,
    },
    /// This step does not wait for a verdict.
    #[error("run {:?}: step {step:?} does not wait for a verdict", run.as_str())]
    NotAwaitingVerdict {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
    },
    /// The run failed.
    #[error("run {:?}: it failed: {}", run.as_str(), failure.error)]
    Failed {
        /// The run.
        run: RunId,
        /// The failure.
        failure: RunFailure,
    },
    /// The run was cancelled.
    #[error("run {:?}: it was cancelled: {reason}", run.as_str())]
    Cancelled {
        /// The run.
        run: RunId,
        /// The reason.
        reason: String,
    },
    /// The run was terminated.
    #[error("run {:?}: it was terminated: {reason}", run.as_str())]
    Terminated {
        /// The run.
        run: RunId,
        /// The reason.
        reason: String,
    },
    /// The run has not ended in time. It continues.
    #[error("run {:?}: it is still open after {waited:?}: {}", run.as_str(), describe(status.as_deref()))]
    StillOpen {
        /// The run.
        run: RunId,
        /// How long the caller waited.
        waited: Duration,
        /// Its status at that time, if the store answered.
        status: Option<Box<RunStatus>>,
    },
    /// The run could not be driven too many times in a row, and needs an operator. It is neither
    /// failed nor lost.
    #[error(
        "run {:?}: it is parked: {error}; deploy code that fits its history, then resume it, or wait for it with even_if_parked",
        run.as_str()
    )]
    Parked {
        /// The run.
        run: RunId,
        /// The error.
        error: String,
    },
    /// Every attempt conflicted with other changes of the run.
    #[error("run {:?}: it was changed concurrently {attempts} times; try again", run.as_str())]
    Contended {
        /// The run.
        run: RunId,
        /// The number of attempts.
        attempts: u32,
    },
    /// The store failed, or was given a value that it cannot store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn describe(status: Option<&RunStatus>) -> String {
    status.map_or_else(|| "its status is unknown".to_owned(), RunStatus::to_string)
}

impl RunError {
    /// The error after this many conflicts.
    pub(crate) fn contended(run: &RunId) -> impl Fn(u32) -> Self {
        move |attempts| Self::Contended { run: run.clone(), attempts }
    }
}
