//! Reads the summary of a run.

use serde::Serialize;
use std::collections::BTreeMap;

use tidelock_store::{Slot, StoreExt, Timestamp};

use crate::handle::Tidelock;
use crate::runs::summary::{Parent, RunState, Summarized};
use crate::runs::{RunError, RunId, WorkflowName, WorkflowVersion, keys};

/// Reads the run's summary, or the error that explains why there is none.
pub(crate) async fn load_summary(tidelock: &Tidelock, run: &RunId) -> Result<Summarized, RunError> {
    let slot = tidelock.store().get_one(&keys::summary(run)).await?;
    match (Summarized::of(run, &slot)?, slot) {
        (Some(there), _) => Ok(there),
        (None, Slot::Deleted(_)) => Err(RunError::Removed { run: run.clone() }),
        (None, _) => Err(RunError::NoRun { run: run.clone() }),
    }
}

/// A summary of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunInfo {
    /// Its id.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// The version of the workflow that it follows.
    pub version: WorkflowVersion,
    /// Whether it is open, or how it ended.
    pub state: RunState,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its deadline.
    pub deadline: Option<Timestamp>,
    /// The run that started it and waits for it.
    pub parent: Option<Parent>,
    /// Attributes for listings.
    pub attributes: BTreeMap<String, String>,
    /// The generation: 1, plus 1 for each time it continued as new.
    pub generation: u32,
}

impl RunInfo {
    pub(super) fn of(there: Summarized) -> Self {
        let Summarized { run, summary, .. } = there;
        Self {
            run,
            workflow: summary.workflow,
            version: summary.version,
            state: summary.state,
            started_at: summary.started_at,
            ended_at: summary.ended_at,
            deadline: summary.deadline,
            parent: summary.parent,
            attributes: summary.attributes,
            generation: summary.generation,
        }
    }
}
