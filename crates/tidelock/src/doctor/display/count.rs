//! Counts with a noun, for people.

/// Formats a count with its noun, in the plural if needed: `2 events`.
pub fn many(count: impl Into<u64>, noun: &str) -> String {
    match count.into() {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
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
}
