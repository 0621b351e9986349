//! Parsers of argument values.

use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use tidelock::store::{NamePattern, Position, RawJson, StoreError, Version};
use tidelock::{Timestamp, When};

/// Parses a name, or a pattern if it contains `*` or `?`.
pub(crate) fn pattern(text: &str) -> Result<NamePattern, String> {
    Ok(if text.contains(['*', '?']) { NamePattern::like(text) } else { NamePattern::is(text) })
}

pub(crate) fn version(text: &str) -> Result<Version, String> {
    Version::new(number(text)?).map_err(|e| said(&e))
}

pub(crate) fn position(text: &str) -> Result<Position, String> {
    Position::new(number(text)?).map_err(|e| said(&e))
}

/// Parses a field and its value.
pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write FIELD=VALUE, for example actor=joe")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses JSON.
pub(crate) fn json(text: &str) -> Result<RawJson, String> {
    RawJson::parse(text).map_err(|e| said(&e))
}

/// Parses a duration, in units: `90s`, `1h30m`, `2 days`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span = SpanParser::new().parse_span(text).ok();
    let length = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    length.and_then(|length| length.try_into().ok()).ok_or_else(|| {
        "write a number and a unit, for example 500ms, 30s, 5m, 2h30m or 1d".to_owned()
    })
}

/// Parses a time, or a duration from now.
pub(crate) fn when(text: &str) -> Result<When, String> {
    match text.parse::<Timestamp>() {
        Ok(moment) => Ok(When::At(moment)),
        Err(_) => duration(text).map(When::In).map_err(|_| {
            "write a duration from now, for example 5m, or a time, for example 2030-01-31T12:00:00Z"
                .to_owned()
        }),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

fn said(error: &StoreError) -> String {
    error.context().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_its_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5_400)));
        for bad in ["", "5", "s", "-1s", "5s ago", "1 month", "99999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_moment_is_a_time_or_a_distance() {
        assert_eq!(when("5m"), Ok(When::In(Duration::from_secs(300))));
        assert!(matches!(when("2030-01-31T12:00:00Z"), Ok(When::At(_))));
        assert!(when("tomorrow").is_err());
    }
}
