//! Why something that was asked of a run did not happen.

use std::time::Duration;

use tidelock_store::StoreError;

use crate::runs::{
    InvalidName, RunFailure, RunId, RunState, RunStatus, WorkflowName, WorkflowVersion,
};

/// Something that was asked of a run and did not happen, or a run that did not come to a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A name cannot be one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// There is no such run.
    #[error("run {:?}: there is none; start it first", run.as_str())]
    NoRun {
        /// Which.
        run: RunId,
    },
    /// There was such a run, and its retention is over.
    #[error("run {:?}: it has ended, and was removed when its retention was over", run.as_str())]
    Removed {
        /// Which.
        run: RunId,
    },
    /// The run has ended.
    #[error("run {:?}: it is {}, so it {why}", run.as_str(), state.as_str())]
    Ended {
        /// Which.
        run: RunId,
        /// What it is.
        state: RunState,
        /// What it does not do any more.
        why: &'static str,
    },
    /// There is another run under this id.
    #[error(
        "run {:?}: it is there, of workflow {:?} with input {there_input}; asked for was workflow {:?} with input \
         {asked_input}; use another id for another run",
        run.as_str(), there.as_str(), asked.as_str()
    )]
    OtherRun {
        /// Which.
        run: RunId,
        /// The workflow of the run that is there.
        there: WorkflowName,
        /// The digest of its input.
        there_input: String,
        /// The workflow that was asked for.
        asked: WorkflowName,
        /// The digest of the input that came with it.
        asked_input: String,
    },
    /// Nobody has registered the workflow.
    #[error(
        "workflow {:?}: no process has registered it with this store yet; register it with AppBuilder::workflow, or say \
         which version is meant",
        workflow.as_str()
    )]
    UnknownWorkflow {
        /// Which.
        workflow: WorkflowName,
    },
    /// The workflow's function cannot read the input.
    #[error(
        "input of run {:?}: workflow {:?}, version {}, cannot read it: {error}", run.as_str(), workflow.as_str(), version.0
    )]
    Input {
        /// Which.
        run: RunId,
        /// Of which workflow.
        workflow: WorkflowName,
        /// In which version.
        version: WorkflowVersion,
        /// What is wrong with it.
        error: String,
    },
    /// A signal with this id is there, and says something else.
    #[error("run {:?}: signal {id:?} is there with another name or payload; use another id for another signal", run.as_str())]
    OtherSignal {
        /// To which run.
        run: RunId,
        /// The id that both have.
        id: String,
    },
    /// Only a failed run can be retried.
    #[error("run {:?}: it is {}, and only a failed run can be retried", run.as_str(), state.as_str())]
    NotFailed {
        /// Which.
        run: RunId,
        /// What it is.
        state: RunState,
    },
    /// A run whose steps were undone cannot go on from them.
    #[error("run {:?}: its steps were undone when it failed, so there is nothing to go on from; start another run", run.as_str())]
    Compensated {
        /// Which.
        run: RunId,
    },
    /// A run whose time is up cannot go on.
    #[error("run {:?}: its deadline has passed; start another run", run.as_str())]
    OutOfTime {
        /// Which.
        run: RunId,
    },
    /// Nobody has to be told what became of this step.
    #[error("run {:?}: step {step:?} does not wait for a verdict", run.as_str())]
    NotAmbiguous {
        /// Of which run.
        run: RunId,
        /// Which step.
        step: String,
    },
    /// The run failed.
    #[error("run {:?}: it failed: {}", run.as_str(), failure.error)]
    Failed {
        /// Which.
        run: RunId,
        /// Why.
        failure: RunFailure,
    },
    /// The run was cancelled.
    #[error("run {:?}: it was cancelled: {reason}", run.as_str())]
    Cancelled {
        /// Which.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The run was terminated.
    #[error("run {:?}: it was terminated: {reason}", run.as_str())]
    Terminated {
        /// Which.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The run has not ended in time. It goes on.
    #[error("run {:?}: it is still open after {waited:?}: {}", run.as_str(), stands(standing.as_deref()))]
    StillOpen {
        /// Which.
        run: RunId,
        /// How long was waited.
        waited: Duration,
        /// Where it stood then; nothing if the store did not say.
        standing: Option<Box<RunStatus>>,
    },
    /// The run could not be driven for so often that it will not go on by itself. It is neither
    /// failed nor lost.
    #[error(
        "run {:?}: it is parked: {error}; deploy code that can go on with it, then resume it, or wait for it even if it is parked",
        run.as_str()
    )]
    Parked {
        /// Which.
        run: RunId,
        /// What was wrong.
        error: String,
    },
    /// Others changed the run every time.
    #[error("run {:?}: others changed it {attempts} times meanwhile; try again", run.as_str())]
    Contended {
        /// Which.
        run: RunId,
        /// How often it was tried.
        attempts: u32,
    },
    /// The store failed, or was given something that it cannot store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn stands(standing: Option<&RunStatus>) -> String {
    standing
        .map_or_else(|| "the store does not say where it stands".to_owned(), RunStatus::to_string)
}

impl RunError {
    /// Others changed this run every time.
    pub(crate) fn contended(run: &RunId) -> impl Fn(u32) -> Self {
        move |attempts| Self::Contended { run: run.clone(), attempts }
    }
}
