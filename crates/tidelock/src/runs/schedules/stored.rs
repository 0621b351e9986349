//! What is kept of a schedule: what it says, and how far it has come.

use serde::{Deserialize, Serialize};
use tidelock_store::{Result, Revision, Slot, Timestamp};

use super::schedule::Plan;
use super::{CatchUp, Overlap};
use crate::runs::names::ScheduleName;
use crate::runs::{RunId, WorkflowName};

/// What the record of a schedule holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) plan: Plan,
    #[serde(default)]
    pub(super) paused: bool,
    /// The first occurrence that has not been dealt with.
    pub(super) next: Option<Timestamp>,
    /// The run that was started last.
    #[serde(default)]
    pub(super) last: Option<RunId>,
}

impl Stored {
    /// What becomes of what was there when this is asked for: as long as the moments are the same,
    /// none of them is forgotten.
    pub(super) fn revised(
        there: Option<Self>,
        plan: Plan,
        next: impl FnOnce() -> Option<Timestamp>,
    ) -> Self {
        match there {
            None => Self { plan, paused: false, next: next(), last: None },
            Some(there) if there.plan.is_as_often_as(&plan) => Self { plan, ..there },
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

/// A schedule as it was read, with the revision that it must still have when it is changed.
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

/// A schedule, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: ScheduleName,
    /// When, by the clocks of its zone.
    pub pattern: String,
    /// Its time zone.
    pub zone: String,
    /// What it starts.
    pub workflow: WorkflowName,
    /// What becomes of occurrences that were missed.
    pub catch_up: CatchUp,
    /// What becomes of those that come while an earlier run is open.
    pub overlap: Overlap,
    /// Whether it is paused.
    pub paused: bool,
    /// When it next starts a run; not at all while it is paused.
    pub next: Option<Timestamp>,
    /// The run that it started last.
    pub last_run: Option<RunId>,
}
