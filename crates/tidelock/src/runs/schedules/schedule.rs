//! What a schedule says: which workflow it starts, with what, when, and what about those that were
//! missed.

use serde::{Deserialize, Serialize};
use tidelock_store::{RawJson, StoreError};

use super::timetable::Timetable;
use super::{CatchUp, ScheduleError};
use crate::runs::WorkflowName;

/// What to do when an occurrence comes while the run of an earlier one is still open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Start a run all the same.
    #[default]
    Allow,
    /// Leave the occurrence out.
    Skip,
}

/// A schedule, as it is asked for.
///
/// ```
/// # use tidelock::runs::{CatchUp, Overlap, Schedule};
/// let nightly = Schedule::cron("0 3 * * *")
///     .in_zone("Europe/Berlin")
///     .starts("report", &"yesterday")
///     .catch_up(CatchUp::Once)
///     .overlap(Overlap::Skip);
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    pattern: String,
    zone: String,
    workflow: String,
    input: Result<RawJson, StoreError>,
    catch_up: CatchUp,
    overlap: Overlap,
}

impl Schedule {
    /// By a cron pattern of five fields (minute, hour, day of the month, month, day of the week),
    /// or of six with seconds first, on the clocks of UTC. It starts nothing yet.
    pub fn cron(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            zone: "UTC".to_owned(),
            workflow: String::new(),
            input: RawJson::new(&()),
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
        }
    }

    /// The same, on the clocks of this zone, by its IANA name.
    #[must_use]
    pub fn in_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// The same, starting runs of this workflow, each with this input.
    #[must_use]
    pub fn starts(
        mut self,
        workflow: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> Self {
        self.workflow = workflow.into();
        self.input = RawJson::new(input);
        self
    }

    /// The same, with this rule for occurrences that were missed. By default one run makes up for
    /// all of them.
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// The same, with this rule for occurrences that come while an earlier run is open. By default
    /// they start another.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What is stored of it.
    pub(super) fn plan(self) -> Result<Plan, ScheduleError> {
        if self.workflow.is_empty() {
            return Err(ScheduleError::StartsNothing);
        }
        Ok(Plan {
            pattern: self.pattern,
            zone: self.zone,
            workflow: WorkflowName::new(self.workflow)?,
            input: self.input.map_err(|e| e.about("input of a schedule's runs"))?,
            catch_up: self.catch_up,
            overlap: self.overlap,
        })
    }
}

/// What is stored of a schedule that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) pattern: String,
    pub(super) zone: String,
    pub(super) workflow: WorkflowName,
    pub(super) input: RawJson,
    pub(super) catch_up: CatchUp,
    pub(super) overlap: Overlap,
}

impl Plan {
    /// When it is due.
    pub(super) fn timetable(&self) -> Result<Timetable, ScheduleError> {
        Timetable::new(&self.pattern, &self.zone)
    }

    /// Whether both come at the same moments.
    pub(super) fn is_as_often_as(&self, other: &Self) -> bool {
        (&self.pattern, &self.zone) == (&other.pattern, &other.zone)
    }
}
