//! Catch-up policies for missed occurrences.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{Timestamp, limits};

use super::timetable::Timetable;

/// What to do about occurrences that passed while no process served schedules, or the store was
/// unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Skip them: an occurrence starts a run only if it is no older than this when it is processed.
    Skip {
        /// How late a run may start.
        tolerance: Duration,
    },
    /// Start one run for all of them, that of the newest.
    Once,
    /// Start one run for each of them, at most for the newest `at_most`.
    Each {
        /// The maximum number of runs, up to 100.
        at_most: usize,
    },
}

impl Default for CatchUp {
    /// One run for all missed occurrences.
    fn default() -> Self {
        Self::Once
    }
}

impl CatchUp {
    /// The maximum number of runs started by one commit.
    pub(super) const MOST: usize = limits::PARTS_PER_COMMIT / 10;

    /// Selects which occurrences from `first` to `now` start a run, oldest first.
    pub(super) fn choose(
        self,
        table: &Timetable,
        first: Timestamp,
        now: Timestamp,
    ) -> Vec<Timestamp> {
        match self {
            Self::Skip { tolerance } => {
                let newest = table.newest(first, now, 1).into_iter();
                newest.filter(|moment| now.since(*moment) <= tolerance).collect()
            }
            Self::Once => table.newest(first, now, 1),
            Self::Each { at_most } => table.newest(first, now, at_most.min(Self::MOST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(catch_up: CatchUp, now: &str) -> Vec<String> {
        let table = Timetable::new("0 * * * *", "UTC").unwrap();
        let first = "2026-01-01T01:00:00Z".parse().unwrap();
        let hours = catch_up.choose(&table, first, now.parse().unwrap());
        hours.iter().map(|hour| hour.to_string()[11..16].to_owned()).collect()
    }

    #[test]
    fn each_rule_chooses_what_it_says() {
        let minute = CatchUp::Skip { tolerance: Duration::from_secs(60) };
        assert_eq!(chosen(minute, "2026-01-01T01:00:00Z"), ["01:00"]);
        assert_eq!(
            chosen(minute, "2026-01-01T04:00:30Z"),
            ["04:00"],
            "the missed ones are left out"
        );
        assert!(chosen(minute, "2026-01-01T04:01:01Z").is_empty());
        assert_eq!(chosen(CatchUp::Once, "2026-01-01T04:30:00Z"), ["04:00"]);
        assert_eq!(
            chosen(CatchUp::Each { at_most: 3 }, "2026-01-01T04:30:00Z"),
            ["02:00", "03:00", "04:00"]
        );
        assert_eq!(
            chosen(CatchUp::Each { at_most: 9 }, "2026-01-01T02:00:00Z"),
            ["01:00", "02:00"]
        );
        assert!(chosen(CatchUp::Once, "2026-01-01T00:59:59Z").is_empty(), "not due yet");
    }
}
