//! Times and durations, for people.

use std::time::Duration;

use tidelock_store::Timestamp;

/// Formats a duration in its two largest units: `1h 20m`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Formats a duration as an option's value: in the largest unit that is exact, such as `90s`.
pub fn length(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let unit = units.into_iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{}{name}", millis / unit)
}

/// Formats how long before `now` a time was: `5m ago`.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(now.since(then)))
}

/// Formats when a time is relative to `now`: `in 5m`, or `5m ago`.
pub fn ahead(then: Timestamp, now: Timestamp) -> String {
    if then > now { format!("in {}", span(then.since(now))) } else { ago(then, now) }
}

fn two(large: u64, unit: &str, small: u64, smaller: &str) -> String {
    match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit} {small}{smaller}"),
    }
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
    fn length_uses_one_unit() {
        let shown =
            [0, 1_500, 90_000, 7_200_000, 86_400_000].map(|ms| length(Duration::from_millis(ms)));
        assert_eq!(shown, ["0ms", "1500ms", "90s", "2h", "1d"]);
    }
}
