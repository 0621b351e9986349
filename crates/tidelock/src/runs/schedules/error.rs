//! Errors of schedules.

use tidelock_store::StoreError;

use crate::runs::{InvalidName, RunError};

/// Why a schedule could not be stored or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The cron pattern is not valid.
    #[error(
        "cron pattern {pattern:?}: {problem}; it has five fields: minute, hour, day, month, day of the week"
    )]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The time zone is unknown.
    #[error(
        "time zone {zone:?} is not known; use a name of the IANA database, such as Europe/Berlin"
    )]
    Zone {
        /// The zone.
        zone: String,
    },
    /// The pattern has no occurrence.
    #[error("cron pattern {pattern:?} has no occurrence")]
    Never {
        /// The pattern.
        pattern: String,
    },
    /// It names neither a workflow nor a job.
    #[error(
        "the schedule starts nothing; set a workflow with Schedule::starts, or a job with Schedule::enqueues"
    )]
    StartsNothing,
    /// The schedule does not exist.
    #[error("schedule {schedule:?}: it does not exist; create it first")]
    NoSchedule {
        /// The schedule.
        schedule: String,
    },
    /// Every attempt conflicted with other changes of the schedule.
    #[error("schedule {schedule:?}: it was changed concurrently {attempts} times; try again")]
    Contended {
        /// The schedule.
        schedule: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// Its run cannot be started.
    #[error(transparent)]
    Run(#[from] Box<RunError>),
    /// The store failed, or was given a value that it cannot store.
    #[error(transparent)]
    Store(#[from] StoreError),
}
