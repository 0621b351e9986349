//! A schedule definition: the workflow or the job, its input, the cron pattern, and the policies
//! for missed and overlapping occurrences.

use serde::{Deserialize, Serialize};
use tidelock_store::{QueueName, RawJson, StoreError};

use super::timetable::Timetable;
use super::{CatchUp, ScheduleError};
use crate::jobs::Job;
use crate::queues::checked_name;
use crate::runs::{InvalidName, WorkflowName, WorkflowRef};

/// What to do about an occurrence while the run or the job of an earlier one is unfinished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Start another one anyway.
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
///     .zone("Europe/Berlin")
///     .starts("report", &"yesterday")
///     .catch_up(CatchUp::Once)
///     .overlap(Overlap::Skip);
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    pattern: String,
    zone: String,
    workflow: Option<Result<WorkflowName, InvalidName>>,
    queue: Option<Result<QueueName, StoreError>>,
    input: Result<RawJson, StoreError>,
    catch_up: CatchUp,
    overlap: Overlap,
}

impl Schedule {
    /// Creates a schedule from a cron pattern, in UTC.
    ///
    /// The pattern has five fields (minute, hour, day of the month, month, day of the week), or six
    /// with seconds first. Set what it does with [`starts`](Self::starts)
    /// or [`enqueues`](Self::enqueues).
    pub fn cron(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            zone: "UTC".to_owned(),
            workflow: None,
            queue: None,
            input: RawJson::new(&()),
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
        }
    }

    /// Sets the time zone, by its IANA name.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
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
        (self.workflow, self.queue) = (Some(workflow.into_name()), None);
        self.input = RawJson::new(input);
        self
    }

    /// Sets the job to enqueue. Each occurrence enqueues one under a key of its own.
    #[must_use]
    pub fn enqueues<J: Job>(mut self, job: &J) -> Self {
        (self.workflow, self.queue) = (None, Some(checked_name(J::QUEUE)));
        self.input = RawJson::new(job);
        self
    }

    /// Sets the job to enqueue, by the name of its queue: for a job whose type this program does
    /// not know.
    #[must_use]
    pub fn enqueues_in(
        mut self,
        queue: impl AsRef<str>,
        payload: &(impl Serialize + ?Sized),
    ) -> Self {
        (self.workflow, self.queue) = (None, Some(checked_name(queue.as_ref())));
        self.input = RawJson::new(payload);
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
        if self.workflow.is_none() && self.queue.is_none() {
            return Err(ScheduleError::StartsNothing);
        }
        Ok(Plan {
            pattern: self.pattern,
            zone: self.zone,
            workflow: self.workflow.transpose()?,
            queue: self.queue.transpose()?,
            input: self.input.map_err(|e| e.about("input of a schedule"))?,
            catch_up: self.catch_up,
            overlap: self.overlap,
        })
    }
}

/// The stored form of a definition. It has a workflow or a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) pattern: String,
    pub(super) zone: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workflow: Option<WorkflowName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<QueueName>,
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
