//! Tables: columns as wide as their widest cell, by display width.

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::plain;

/// A value that can be shown as a row, or as JSON.
pub(crate) trait TableRow: Serialize {
    /// The names of the columns.
    const HEADINGS: &'static [&'static str];

    /// The cells.
    fn cells(&self) -> Vec<String>;
}

/// Rows of a kind.
pub(crate) struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
}

impl Table {
    pub(crate) fn of<T: TableRow>(things: &[T]) -> Self {
        let headings: Vec<String> =
            T::HEADINGS.iter().map(|heading| heading.to_uppercase()).collect();
        let rows: Vec<Vec<String>> =
            things.iter().map(|thing| made_plain(&thing.cells())).collect();
        let widths = (0..headings.len()).map(|column| widest(&headings, &rows, column)).collect();
        Self { headings, rows, widths }
    }

    pub(crate) fn heading(&self) -> String {
        self.line(&self.headings)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|row| self.line(row))
    }

    fn line(&self, cells: &[String]) -> String {
        let padded = cells.iter().zip(&self.widths).map(|(cell, width)| pad(cell, *width));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

fn made_plain(cells: &[String]) -> Vec<String> {
    cells.iter().map(|cell| plain(cell).into_owned()).collect()
}

fn widest(headings: &[String], rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column)).chain(headings.get(column));
    cells.map(|cell| cell.width()).max().unwrap_or_default()
}

fn pad(cell: &str, width: usize) -> String {
    format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())))
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
        let table = Table::of(&[Pair("a", "open"), Pair("世界", "x\n")]);
        assert_eq!(table.heading(), "NAME  STATE");
        assert_eq!(table.rows().collect::<Vec<_>>(), ["a     open", "世界  x\\n"]);
    }
}
