//! Tables: columns as wide as their widest cell, by display width.

use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use super::plain;

/// A value that can be shown as a row, or as JSON.
pub(crate) trait TableRow: Serialize {
    /// The names of the columns.
    const HEADINGS: &'static [&'static str];

    /// The cells.
    fn cells(&self) -> Vec<String>;
}

/// The lines of a table: the heading, and one for each row.
pub(crate) fn table<T: TableRow>(things: &[T]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(T::HEADINGS.iter().map(|heading| heading.to_uppercase()));
    for thing in things {
        table.add_row(thing.cells().iter().map(|cell| plain(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Pair(&'static str, &'static str);

    impl TableRow for Pair {
        const HEADINGS: &'static [&'static str] = &["name", "state"];

        fn cells(&self) -> Vec<String> {
            vec![self.0.to_owned(), self.1.to_owned()]
        }
    }

    #[test]
    fn columns_stand_under_each_other_whatever_is_in_them() {
        let table = table(&[Pair("a", "open"), Pair("世界", "x\n"), Pair("", "\u{200b}")]);
        assert_eq!(table, ["NAME  STATE", "a     open", "世界  x\\n", "      \\u{200b}"]);
    }
}
