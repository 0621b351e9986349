//! Moments and lengths of time, for people.

use std::time::Duration;

use tidelock::Timestamp;

/// A length of time in the two largest units that it has.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// How long before now.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(now.since(then)))
}

/// How long from now on; or how long ago it was.
pub(crate) fn ahead(then: Timestamp, now: Timestamp) -> String {
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
        let told = [0, 59, 60, 61, 3_599, 3_600, 7_260, 90_000].map(|s| span(Duration::from_secs(s)));
        assert_eq!(told, ["0ms", "59s", "1m", "1m 1s", "59m 59s", "1h", "2h 1m", "1d 1h"]);
    }
}
