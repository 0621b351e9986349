//! The stored state of a schedule: its definition and progress.

use serde::{Deserialize, Serialize};
use tidelock_store::{Result, Revision, Slot, Timestamp};

use super::schedule::Plan;
use super::{CatchUp, Overlap};
use crate::runs::names::ScheduleName;
use crate::runs::{RunId, WorkflowName};

/// The content of a schedule's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) plan: Plan,
    #[serde(default)]
    pub(super) paused: bool,
    /// The first occurrence that is not processed.
    pub(super) next: Option<Timestamp>,
    /// The run, or the key of the job, that was started last.
    #[serde(default)]
    pub(super) last: Option<RunId>,
}

impl Stored {
    /// Merges a new definition with the stored state: if the occurrences are the same, the progress
    /// is kept.
    pub(super) fn revised(
        there: Option<Self>,
        plan: Plan,
        next: impl FnOnce() -> Option<Timestamp>,
    ) -> Self {
        match there {
            None => Self { plan, paused: false, next: next(), last: None },
            Some(there) if there.plan.has_same_occurrences(&plan) => Self { plan, ..there },
            Some(there) => Self { plan, next: next(), ..there },
        }
    }

    pub(super) fn info(self, name: &ScheduleName) -> ScheduleInfo {
        let (last_run, last_job) = match &self.plan.queue {
            None => (self.last, None),
            Some(_) => (None, self.last.map(|last| last.as_str().to_owned())),
        };
        ScheduleInfo {
            name: name.clone(),
            pattern: self.plan.pattern,
            zone: self.plan.zone,
            workflow: self.plan.workflow,
            queue: self.plan.queue.map(|queue| queue.as_str().to_owned()),
            catch_up: self.plan.catch_up,
            overlap: self.plan.overlap,
            paused: self.paused,
            next: self.next.filter(|_| !self.paused),
            last_run,
            last_job,
        }
    }
}

/// A schedule with the revision for optimistic concurrency.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) stored: Stored,
    pub(super) revision: Revision,
}

impl Kept {
    pub(super) fn of(slot: &Slot) -> Result<Option<Self>> {
        let kept = |record: &tidelock_store::Record| {
            Ok(Self { stored: record.value.to()?, revision: record.revision })
        };
        slot.live().map(kept).transpose()
    }
}

/// A schedule and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: ScheduleName,
    /// The cron pattern.
    pub pattern: String,
    /// The time zone.
    pub zone: String,
    /// The workflow whose runs it starts, if it starts runs.
    pub workflow: Option<WorkflowName>,
    /// The queue of the jobs that it enqueues, if it enqueues jobs.
    pub queue: Option<String>,
    /// The policy for missed occurrences.
    pub catch_up: CatchUp,
    /// The policy for occurrences during an unfinished run or job.
    pub overlap: Overlap,
    /// Whether it is paused.
    pub paused: bool,
    /// The next occurrence; `None` while it is paused.
    pub next: Option<Timestamp>,
    /// The run that it started last.
    pub last_run: Option<RunId>,
    /// The key of the job that it enqueued last.
    pub last_job: Option<String>,
}
