//! Formatting of findings: durations and counts for people, words for a shell. Also for callers
//! that print findings beside other output.

use std::fmt::Write;
use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanPrinter};
use jiff::{RoundMode, Span, SpanRound, Unit};
use tidelock_store::Timestamp;

/// Formats a count with its noun, in the plural if needed: `2 events`.
pub fn many(count: impl Into<u64>, noun: &str) -> String {
    match count.into() {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

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

/// Quotes a word for a shell, if needed.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | ',' | '=')
    };
    match word {
        "" => "''".to_owned(),
        word if word.chars().all(is_plain) => word.to_owned(),
        word if word.chars().any(is_tricky) => escaped(word),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Whether a character acts instead of being visible: terminal controls, line and direction
/// controls, and zero-width characters.
pub fn is_tricky(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes invisible characters in `$'...'`, the only quotes in which a shell reads escapes.
fn escaped(word: &str) -> String {
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => drop(write!(quoted, "\\{c}")),
            c if is_tricky(c) => drop(write!(quoted, "\\U{:08x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_uses_the_plural_except_for_one() {
        assert_eq!(
            [0_u64, 1, 2].map(|count| many(count, "event")),
            ["0 events", "1 event", "2 events"]
        );
    }

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

    #[test]
    fn a_shell_reads_back_the_original_word() {
        for word in [
            "order-7",
            "",
            "two words",
            "it's",
            "$(reboot)",
            "`x`;&|<>",
            "~links/a",
            "a\u{202e}b'\\c",
        ] {
            let read = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .env("LC_ALL", "C.UTF-8")
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(read.stdout).unwrap(), word, "{}", quoted(word));
        }
    }
}
