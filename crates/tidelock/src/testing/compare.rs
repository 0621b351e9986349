//! Comparison of two lists, as a table that says where they differ.

use std::fmt::Display;

/// Panics with a table unless both lists are equal.
#[track_caller]
pub(super) fn assert_same(what: &str, expected: &[String], found: &[String]) {
    if expected != found {
        panic!("{}", difference(what, expected, found));
    }
}

/// The names of a list, for a comparison.
pub(super) fn names<T: Display>(names: impl IntoIterator<Item = T>) -> Vec<String> {
    names.into_iter().map(|name| name.to_string()).collect()
}

fn difference(what: &str, expected: &[String], found: &[String]) -> String {
    const NONE: &str = "(none)";
    let rows = expected.len().max(found.len());
    let of = |list: &[String], row: usize| list.get(row).map_or(NONE, String::as_str).to_owned();
    let widest = (0..rows).map(|row| of(expected, row).chars().count()).max().unwrap_or_default();
    let width = widest.max("expected".len());
    let first = (0..rows).find(|row| expected.get(*row) != found.get(*row)).unwrap_or_default();
    let mut table = format!("{what}: number {} differs\n", first + 1);
    table += &format!("       {:width$}  found", "expected");
    for row in 0..rows {
        let mark = if expected.get(row) == found.get(row) { ' ' } else { '>' };
        table +=
            &format!("\n{mark} {:>3}  {:width$}  {}", row + 1, of(expected, row), of(found, row));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_a_table_with_a_mark_at_each_row_that_differs() {
        let (expected, found) = (names(["placed", "paid"]), names(["placed", "cancelled", "x"]));
        assert_eq!(
            difference("events of stream \"order-7\"", &expected, &found),
            "events of stream \"order-7\": number 2 differs\n\
            \x20      expected  found\n\
            \x20   1  placed    placed\n\
            >   2  paid      cancelled\n\
            >   3  (none)    x"
        );
    }
}
