//! Why a schedule is not as it was asked for.

use tidelock_store::StoreError;

use crate::runs::InvalidName;

/// A schedule that is not as it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A name cannot be one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The pattern is none.
    #[error(
        "cron pattern {pattern:?}: {problem}; it has five fields: minute, hour, day, month, day of the week"
    )]
    Pattern {
        /// Which.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such zone.
    #[error(
        "time zone {zone:?} is not known; use a name of the IANA database, such as Europe/Berlin"
    )]
    Zone {
        /// Which.
        zone: String,
    },
    /// The moment never comes.
    #[error("cron pattern {pattern:?} names a moment that never comes")]
    Never {
        /// Which.
        pattern: String,
    },
    /// It does not say what to start.
    #[error("the schedule starts nothing; say what with Schedule::starts")]
    StartsNothing,
    /// There is no such schedule.
    #[error("schedule {schedule:?}: there is none; set it up first")]
    NoSchedule {
        /// Which.
        schedule: String,
    },
    /// Others changed the schedule every time.
    #[error("schedule {schedule:?}: others changed it {attempts} times meanwhile; try again")]
    Contended {
        /// Which.
        schedule: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The store failed, or was given something that it cannot store.
    #[error(transparent)]
    Store(#[from] StoreError),
}
