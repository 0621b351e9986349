//! SQL statements with the types of their parameters.
//!
//! A statement of more than three lines is a file of `sql/`, named as its static. The types are
//! given explicitly, so that a statement can run with or without being prepared: behind a proxy in
//! transaction mode, a prepared statement would not be found again.

use std::sync::LazyLock;

use tokio_postgres::types::Type;

/// The text of a file of `sql/`.
macro_rules! sql_file {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}
pub(crate) use sql_file;

/// A [`Statement`] of a text or a file, and the types of its parameters:
/// `statement!("SELECT $1": TEXT)` or `statement!(file "renew": TEXT_ARRAY, INT8)`.
macro_rules! statement {
    (file $name:literal $(: $($type:ident),*)?) => {
        $crate::statement::Statement {
            sql: $crate::statement::sql_file!($name),
            types: &[$($(tokio_postgres::types::Type::$type),*)?],
        }
    };
    ($sql:literal $(: $($type:ident),*)?) => {
        $crate::statement::Statement {
            sql: $sql,
            types: &[$($(tokio_postgres::types::Type::$type),*)?],
        }
    };
}
pub(crate) use statement;

/// A statement. Its text names the schema `tidelock`, which each store replaces by its own, and
/// mentions [fragments](FRAGMENTS) as `:name`.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) types: &'static [Type],
}

impl Statement {
    /// The text for a store in this schema.
    pub(crate) fn in_schema(&self, schema: &str) -> String {
        let expand = |sql: String, (name, text): &(&str, String)| sql.replace(name, text);
        in_schema(&FRAGMENTS.iter().fold(self.sql.to_owned(), expand), schema)
    }
}

/// Replaces the schema `tidelock` by the store's.
pub(crate) fn in_schema(sql: &str, schema: &str) -> String {
    sql.replace("tidelock.", &format!("\"{schema}\"."))
}

/// When a commit `c` is forgotten. The expiry index is over this same expression.
pub(crate) const FORGET_AT: &str = "coalesce(c.forget_at, c.committed_at + 604800000000)";

/// Pieces that several statements share. A fragment may mention those after it.
static FRAGMENTS: LazyLock<[(&str, String); 8]> = LazyLock::new(|| {
    let item_names = sql_file!("item_columns").trim_end();
    let item_columns: Vec<_> =
        item_names.split(',').map(|name| format!("i.{}", name.trim())).collect();
    [
        // Ready items, up to a number per lane and priority; each lane and priority, even if
        // nothing in it is ready; and the moment.
        (":ready_items", sql_file!("ready_items").to_owned()),
        // Streams, each with its last event.
        (":heads", sql_file!("heads").to_owned()),
        // In the order in which `leases::item` reads them.
        (":item_columns", item_columns.join(", ")),
        (":item_names", item_names.to_owned()),
        // In the order in which `log::Alike` reads them.
        (
            ":event_columns",
            "e.position, e.version, e.id, e.type, e.payload, e.metadata, e.recorded_at".to_owned(),
        ),
        // In the order in which `records::record` reads them.
        (":record_columns", "r.key, r.revision, r.value, r.expires_at".to_owned()),
        (":forget_at", FORGET_AT.to_owned()),
        // The store's clock.
        (
            ":now",
            "(SELECT greatest(tidelock.calendar() + shift, clock) FROM tidelock.meta)".to_owned(),
        ),
    ]
});
