//! Timetable: a cron pattern in a time zone.
//!
//! When clocks go forward, a fixed time in the gap occurs at the first moment after it; when they
//! go back, a fixed time that occurs twice counts once. Patterns with a `*` or a step in hours or
//! minutes follow real time through both. It reads no clock: the store's time is passed in.

use std::iter::successors;

use croner::Cron;
use jiff::Zoned;
use jiff::tz::TimeZone;
use tidelock_store::Timestamp;

use super::ScheduleError;

/// A cron pattern in a time zone.
#[derive(Debug, Clone)]
pub(crate) struct Timetable {
    cron: Cron,
    zone: TimeZone,
}

impl Timetable {
    /// Parses both.
    pub(crate) fn new(pattern: &str, zone: &str) -> Result<Self, ScheduleError> {
        let cron = pattern.parse().map_err(|error: croner::errors::CronError| {
            ScheduleError::Pattern { pattern: pattern.to_owned(), problem: error.to_string() }
        })?;
        let zone =
            TimeZone::get(zone).map_err(|_| ScheduleError::Zone { zone: zone.to_owned() })?;
        Ok(Self { cron, zone })
    }

    /// The first occurrence after this time, if any.
    pub(crate) fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.zoned(moment)?, false).ok()?;
        timestamp(&next).filter(|next| *next > moment)
    }

    /// The newest occurrences from `first` to `now`, inclusive, at most `most`, oldest first. The
    /// cost does not depend on how many there were.
    pub(crate) fn newest(&self, first: Timestamp, now: Timestamp, most: usize) -> Vec<Timestamp> {
        let Some(now) = self.zoned(whole_second(now)) else { return Vec::new() };
        let back = |from: &Zoned, itself| self.cron.find_previous_occurrence(from, itself).ok();
        let back = successors(back(&now, true), |moment| back(moment, false));
        let due =
            back.filter_map(|moment| timestamp(&moment)).take_while(|moment| *moment >= first);
        let mut newest: Vec<_> = due.take(most).collect();
        newest.reverse();
        newest
    }

    fn zoned(&self, moment: Timestamp) -> Option<Zoned> {
        let moment = jiff::Timestamp::from_microsecond(moment.micros()).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }
}

/// Patterns have no fractions of a second: an occurrence is due from the start of its second.
fn whole_second(moment: Timestamp) -> Timestamp {
    const SECOND: i64 = 1_000_000;
    Timestamp::from_micros(moment.micros() / SECOND * SECOND).unwrap_or(moment)
}

fn timestamp(moment: &Zoned) -> Option<Timestamp> {
    Timestamp::from_micros(moment.timestamp().as_microsecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn berlin(pattern: &str) -> Timetable {
        Timetable::new(pattern, "Europe/Berlin").unwrap()
    }

    /// The next `count` occurrences, as text to the minute.
    fn next(table: &Timetable, from: &str, count: usize) -> Vec<String> {
        let mut moment = at(from);
        let mut step = || {
            moment = table.after(moment).unwrap();
            moment.to_string()[..16].to_owned()
        };
        (0..count).map(|_| step()).collect()
    }

    #[test]
    fn a_pattern_is_read_on_the_clocks_of_its_zone() {
        let table = berlin("0 9 * * *");
        assert_eq!(
            next(&table, "2026-01-01T00:00:00Z", 2),
            ["2026-01-01T08:00", "2026-01-02T08:00"]
        );
        assert_eq!(
            next(&table, "2026-07-01T00:00:00Z", 1),
            ["2026-07-01T07:00"],
            "an hour earlier in summer"
        );
        assert_eq!(
            table.after(at("2026-01-01T08:00:00Z")),
            Some(at("2026-01-02T08:00:00Z")),
            "after, not at"
        );
    }

    #[test]
    fn a_time_that_the_clocks_leave_out_comes_right_after_and_one_that_comes_twice_is_taken_once() {
        let table = berlin("30 2 * * *");
        // On 29 March 2026, 2:00 is followed by 3:00; on 25 October, 3:00 by 2:00.
        assert_eq!(
            next(&table, "2026-03-28T12:00:00Z", 2),
            ["2026-03-29T01:00", "2026-03-30T00:30"]
        );
        assert_eq!(
            next(&table, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30", "2026-10-26T01:30"]
        );
        let quarters = berlin("*/15 * * * *");
        let night = next(&quarters, "2026-10-25T00:00:00Z", 8);
        assert_eq!(night.last().unwrap(), "2026-10-25T02:00", "each quarter of both hours");
    }

    #[test]
    fn the_newest_are_found_however_many_were_missed() {
        let table = berlin("* * * * *");
        let (first, now) = (at("2020-01-01T00:00:00Z"), at("2026-01-01T00:02:30Z"));
        assert_eq!(
            table.newest(first, now, 2),
            [at("2026-01-01T00:01:00Z"), at("2026-01-01T00:02:00Z")]
        );
        let now = at("2026-01-01T00:02:00Z");
        assert_eq!(table.newest(now, now, 5), [now], "both ends count");
        assert_eq!(table.newest(at("2026-01-01T00:02:01Z"), now, 5), []);
        let late = at("2026-01-01T00:02:00.000001Z");
        assert_eq!(table.newest(now, late, 5), [now], "a moment is due from its beginning on");
    }

    #[test]
    fn what_is_wrong_with_a_pattern_or_a_zone_is_said() {
        let error_of = |pattern, zone| Timetable::new(pattern, zone).unwrap_err().to_string();
        assert!(error_of("61 * * * *", "UTC").contains(r#"cron pattern "61 * * * *""#));
        assert!(error_of("0 9 * * *", "Europe/Atlantis").contains("Europe/Atlantis"));
        assert_eq!(
            Timetable::new("0 0 30 2 *", "UTC").unwrap().after(at("2026-01-01T00:00:00Z")),
            None
        );
    }
}
