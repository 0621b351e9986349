//! How many of something, for people.

/// So many of these.
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
    fn one_is_not_many() {
        assert_eq!(
            [0_u64, 1, 2].map(|count| many(count, "event")),
            ["0 events", "1 event", "2 events"]
        );
    }
}
