//! A schedule definition: the workflow, its input, the cron pattern, and the policies for missed
//! and overlapping occurrences.

use serde::{Deserialize, Serialize};
use tidelock_store::{RawJson, StoreError};

use super::timetable::Timetable;
use super::{CatchUp, ScheduleError};
use crate::runs::{InvalidName, WorkflowName, WorkflowRef};

/// What to do about an occurrence while the run of an earlier one is still open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Start a run anyway.
    #[default]
    Allow,
    /// Skip the occurrence.
    Skip,
}

/// A schedule definition.
///
/// # Examples
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
    workflow: Option<Result<WorkflowName, InvalidName>>,
    input: Result<RawJson, StoreError>,
    catch_up: CatchUp,
    overlap: Overlap,
}

impl Schedule {
    /// Creates a schedule from a cron pattern, in UTC.
    ///
    /// The pattern has five fields (minute, hour, day of the month, month, day of the week), or six
    /// with seconds first. Set the workflow with [`starts`](Self::starts).
    pub fn cron(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            zone: "UTC".to_owned(),
            workflow: None,
            input: RawJson::new(&()),
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
        }
    }

    /// Sets the time zone, by its IANA name.
    #[must_use]
    pub fn in_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// Sets the workflow to start, and the input of its runs.
    #[must_use]
    pub fn starts<W, I>(mut self, workflow: W, input: &I) -> Self
    where
        W: WorkflowRef<I>,
        I: Serialize + ?Sized,
    {
        self.workflow = Some(workflow.into_name());
        self.input = RawJson::new(input);
        self
    }

    /// Sets the policy for missed occurrences. The default is one run for all of them.
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Sets the policy for occurrences during an open run. The default is to start another run.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// The stored form.
    pub(super) fn plan(self) -> Result<Plan, ScheduleError> {
        Ok(Plan {
            pattern: self.pattern,
            zone: self.zone,
            workflow: self.workflow.ok_or(ScheduleError::StartsNothing)??,
            input: self.input.map_err(|e| e.about("input of a schedule's runs"))?,
            catch_up: self.catch_up,
            overlap: self.overlap,
        })
    }
}

/// The stored form of a definition.
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
    /// Its parsed timetable.
    pub(super) fn timetable(&self) -> Result<Timetable, ScheduleError> {
        Timetable::new(&self.pattern, &self.zone)
    }

    /// Whether both have the same occurrences.
    pub(super) fn has_same_occurrences(&self, other: &Self) -> bool {
        (&self.pattern, &self.zone) == (&other.pattern, &other.zone)
    }
}
