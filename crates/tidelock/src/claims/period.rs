//! Calendar periods in a time zone: what "once a day" means.
//!
//! Periods follow the store's clock. A day is 23 or 25 hours long when clocks change.

use std::fmt;
use std::time::Duration;

use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use tidelock_store::{Result, StoreError, Timestamp, When};

use crate::bounds;

/// Period of a quota or a singleton.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Period {
    /// One period that never ends.
    Ever,
    /// A period of this length, from its first use.
    Every(Duration),
    /// A clock hour.
    Hour,
    /// A calendar day.
    Day,
    /// A calendar week, from Monday.
    Week,
    /// A calendar month.
    Month,
    /// A calendar year.
    Year,
}

/// One occurrence of a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Occurrence {
    /// Its label; empty if there is only one at a time.
    pub(super) label: String,
    /// When it ends.
    pub(super) end: Option<When>,
}

impl Period {
    /// Name of the period and its zone in a key: `None` if there is only one occurrence, empty if
    /// the zone has no name.
    pub(super) fn named(self, zone: &TimeZone) -> Option<String> {
        match self {
            Self::Ever => None,
            Self::Every(_) => Some(self.to_string()),
            _ if *zone == TimeZone::UTC => Some(self.to_string()),
            _ => {
                let zone = DateTimePrinter::new().time_zone_to_string(zone);
                Some(zone.map_or_else(|_| String::new(), |zone| format!("{self} in {zone}")))
            }
        }
    }

    /// Returns the occurrence that contains this time.
    pub(super) fn at(self, now: Timestamp, zone: &TimeZone) -> Result<Occurrence> {
        if self == Self::Every(Duration::ZERO) {
            return Err(StoreError::invalid(
                "a period of no time is over before it begins; say 1 ms or more",
            ));
        }
        if let Self::Every(long) = self {
            bounds::keeps("a period", long)?;
        }
        let unfit =
            |e: jiff::Error| StoreError::invalid(format!("the {self} of {now} has no end: {e}"));
        let moment = jiff::Timestamp::from_microsecond(now.micros()).map_err(unfit)?;
        self.occurrence(&moment.to_zoned(zone.clone())).map_err(unfit)?
    }

    fn occurrence(self, now: &Zoned) -> Result<Result<Occurrence>, jiff::Error> {
        let date = now.date();
        let (label, next) = match self {
            Self::Ever => return Ok(Ok(Occurrence { label: String::new(), end: None })),
            Self::Every(long) => {
                return Ok(Ok(Occurrence { label: String::new(), end: Some(When::In(long)) }));
            }
            Self::Hour => return Ok(hour(now)),
            Self::Day => (date.to_string(), date.tomorrow()?),
            Self::Week => {
                let week = date.iso_week_date();
                let monday =
                    date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days())?;
                (format!("{}-W{:02}", week.year(), week.week()), monday.checked_add(7.days())?)
            }
            Self::Month => {
                (date.strftime("%Y-%m").to_string(), date.first_of_month().checked_add(1.month())?)
            }
            Self::Year => {
                (date.strftime("%Y").to_string(), date.first_of_year().checked_add(1.year())?)
            }
        };
        // Midnight in the zone: the first moment of the day, if clocks are set forward across it.
        let end = next.to_zoned(now.time_zone().clone())?;
        Ok(ends(label, end.timestamp()))
    }
}

/// By the current offset, so that the hour that occurs twice in autumn is two.
fn hour(now: &Zoned) -> Result<Occurrence> {
    let (hour, offset) = (3_600, i64::from(now.offset().seconds()));
    let local = now.timestamp().as_second() + offset;
    let end = local - local.rem_euclid(hour) + hour - offset;
    let end = jiff::Timestamp::from_second(end)
        .map_err(|e| StoreError::invalid(format!("the hour of {now} has no end: {e}")))?;
    ends(now.strftime("%Y-%m-%dT%H%:z").to_string(), end)
}

fn ends(label: String, end: jiff::Timestamp) -> Result<Occurrence> {
    Ok(Occurrence { label, end: Some(When::At(Timestamp::from_micros(end.as_microsecond())?)) })
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ever => f.write_str("ever"),
            Self::Every(long) => write!(f, "{long:?}"),
            Self::Hour => f.write_str("hour"),
            Self::Day => f.write_str("day"),
            Self::Week => f.write_str("week"),
            Self::Month => f.write_str("month"),
            Self::Year => f.write_str("year"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn occurrence(period: Period, now: &str, zone: &TimeZone) -> (String, String) {
        let occurrence = period.at(now.parse().unwrap(), zone).unwrap();
        let Some(When::At(end)) = occurrence.end else { panic!("{occurrence:?}") };
        (occurrence.label, end.to_string().replace(":00:00.000000", ""))
    }

    fn pair(label: &str, end: &str) -> (String, String) {
        (label.into(), end.into())
    }

    #[test]
    fn a_day_is_that_of_the_zone() {
        let late = "2026-11-15T23:30:00Z";
        assert_eq!(
            occurrence(Period::Day, late, &TimeZone::UTC),
            pair("2026-11-15", "2026-11-16T00Z")
        );
        assert_eq!(occurrence(Period::Day, late, &berlin()), pair("2026-11-16", "2026-11-16T23Z"));
        assert_eq!(
            occurrence(Period::Day, "2026-11-15T23:59:59.999999Z", &TimeZone::UTC),
            pair("2026-11-15", "2026-11-16T00Z")
        );
        assert_eq!(occurrence(Period::Day, "2026-11-16T00:00:00Z", &TimeZone::UTC).0, "2026-11-16");
    }

    #[test]
    fn a_day_with_a_clock_change_is_23_or_25_hours_long() {
        // From 2 to 3 in March, from 3 back to 2 in October.
        assert_eq!(
            occurrence(Period::Day, "2026-03-29T00:30:00Z", &berlin()),
            pair("2026-03-29", "2026-03-29T22Z")
        );
        assert_eq!(
            occurrence(Period::Day, "2026-10-24T22:00:00Z", &berlin()),
            pair("2026-10-25", "2026-10-25T23Z")
        );
        // Where clocks are set forward at midnight, the day begins at one.
        let santiago = TimeZone::posix("<-04>4<-03>,M9.1.6/24,M4.1.6/24").unwrap();
        assert_eq!(
            occurrence(Period::Day, "2026-09-06T03:59:00Z", &santiago),
            pair("2026-09-05", "2026-09-06T04Z")
        );
        assert_eq!(occurrence(Period::Day, "2026-09-06T04:00:00Z", &santiago).0, "2026-09-06");
    }

    #[test]
    fn an_hour_that_occurs_twice_is_two_windows() {
        let first = occurrence(Period::Hour, "2026-10-25T00:30:00Z", &berlin());
        let second = occurrence(Period::Hour, "2026-10-25T01:30:00Z", &berlin());
        assert_eq!(first, pair("2026-10-25T02+02:00", "2026-10-25T01Z"));
        assert_eq!(second, pair("2026-10-25T02+01:00", "2026-10-25T02Z"));
    }

    #[test]
    fn weeks_months_and_years_end_where_the_next_begins() {
        let now = "2026-12-31T12:00:00Z";
        assert_eq!(
            occurrence(Period::Week, now, &TimeZone::UTC),
            pair("2026-W53", "2027-01-04T00Z")
        );
        assert_eq!(
            occurrence(Period::Month, now, &TimeZone::UTC),
            pair("2026-12", "2027-01-01T00Z")
        );
        assert_eq!(occurrence(Period::Year, now, &TimeZone::UTC), pair("2026", "2027-01-01T00Z"));
        assert_eq!(
            occurrence(Period::Month, "2028-02-29T12:00:00Z", &TimeZone::UTC),
            pair("2028-02", "2028-03-01T00Z")
        );
    }
}
