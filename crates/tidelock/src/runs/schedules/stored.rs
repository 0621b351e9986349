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
    /// The run that was started last.
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
        ScheduleInfo {
            name: name.clone(),
            pattern: self.plan.pattern,
            zone: self.plan.zone,
            workflow: self.plan.workflow,
            catch_up: self.plan.catch_up,
            overlap: self.plan.overlap,
            paused: self.paused,
            next: self.next.filter(|_| !self.paused),
            last_run: self.last,
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
    /// The workflow it starts.
    pub workflow: WorkflowName,
    /// The policy for missed occurrences.
    pub catch_up: CatchUp,
    /// The policy for occurrences during an open run.
    pub overlap: Overlap,
    /// Whether it is paused.
    pub paused: bool,
    /// The next occurrence; `None` while it is paused.
    pub next: Option<Timestamp>,
    /// The run that it started last.
    pub last_run: Option<RunId>,
}
