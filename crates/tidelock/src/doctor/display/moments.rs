//! Moments and lengths of time, for people.

use std::time::Duration;

use tidelock_store::Timestamp;

/// A length of time in the two largest units that it has.
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

/// A length of time as it is typed: in the largest unit that says all of it.
pub fn length(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let unit = units.into_iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{}{name}", millis / unit)
}

/// How long before now.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(now.since(then)))
}

/// How long from now on; or how long ago it was.
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
    fn a_span_is_as_exact_as_people_want_it() {
        let told =
            [0, 59, 60, 61, 3_599, 3_600, 7_260, 90_000].map(|s| span(Duration::from_secs(s)));
        assert_eq!(told, ["0ms", "59s", "1m", "1m 1s", "59m 59s", "1h", "2h 1m", "1d 1h"]);
    }

    #[test]
    fn a_length_is_typed_in_one_unit() {
        let told =
            [0, 1_500, 90_000, 7_200_000, 86_400_000].map(|ms| length(Duration::from_millis(ms)));
        assert_eq!(told, ["0ms", "1500ms", "90s", "2h", "1d"]);
    }
}
