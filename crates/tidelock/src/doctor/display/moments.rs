//! Times and durations, for people.

use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanPrinter};
use jiff::{RoundMode, Span, SpanRound, Unit};
use tidelock_store::Timestamp;

/// Formats a duration in its two largest units: `1h 20m`.
pub fn span(duration: Duration) -> String {
    let smallest = match duration.as_secs() {
        0 => Unit::Millisecond,
        1..3_600 => Unit::Second,
        3_600..86_400 => Unit::Minute,
        _ => Unit::Hour,
    };
    friendly(duration, smallest, Spacing::BetweenUnits)
}

/// Formats a duration as an option's value, exact to the millisecond and without spaces: `1m30s`.
pub fn length(duration: Duration) -> String {
    friendly(duration, Unit::Millisecond, Spacing::None)
}

fn friendly(duration: Duration, smallest: Unit, spacing: Spacing) -> String {
    let round = SpanRound::new().smallest(smallest).largest(Unit::Day).mode(RoundMode::Trunc);
    let span = Span::try_from(duration).and_then(|span| span.round(round.days_are_24_hours()));
    let printer = SpanPrinter::new().spacing(spacing).zero_unit(Unit::Millisecond);
    // More than 19,000 years.
    span.map_or_else(|_| format!("{duration:?}"), |span| printer.span_to_string(&span))
}

/// Formats how long before `now` a time was: `5m ago`.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(now.since(then)))
}

/// Formats when a time is relative to `now`: `in 5m`, or `5m ago`.
pub fn ahead(then: Timestamp, now: Timestamp) -> String {
    if then > now { format!("in {}", span(then.since(now))) } else { ago(then, now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_shows_the_two_largest_units() {
        let shown =
            [0, 59, 60, 61, 3_599, 3_600, 7_260, 90_000].map(|s| span(Duration::from_secs(s)));
        assert_eq!(shown, ["0ms", "59s", "1m", "1m 1s", "59m 59s", "1h", "2h 1m", "1d 1h"]);
    }

    #[test]
    fn length_is_exact_and_one_word() {
        let shown =
            [0, 1_500, 90_000, 7_200_000, 86_400_000].map(|ms| length(Duration::from_millis(ms)));
        assert_eq!(shown, ["0ms", "1s500ms", "1m30s", "2h", "1d"]);
    }
}
