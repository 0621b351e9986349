//! A statement of SQL with the types of its parameters.
//!
//! The types are spelled out, so that a statement can be run with or without being prepared first:
//! behind a proxy that gives every transaction another connection, nothing prepared would be found
//! again.

use tokio_postgres::types::Type;

/// One statement. Its text names the schema `tidelock`, in whose place each store puts its own.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) types: &'static [Type],
}

impl Statement {
    pub(crate) const fn new(sql: &'static str, types: &'static [Type]) -> Self {
        Self { sql, types }
    }
}

/// Puts the store's schema where the text says `tidelock`.
pub(crate) fn in_schema(sql: &str, schema: &str) -> String {
    sql.replace("tidelock.", &format!("\"{schema}\"."))
}

/// The store's clock, as a scalar subquery.
macro_rules! now {
    () => {
        "(SELECT greatest(tidelock.calendar() + shift, clock) FROM tidelock.meta)"
    };
}
pub(crate) use now;

/// When a commit `c` is forgotten. The index of what leaves is over this very expression.
macro_rules! forget_at {
    () => {
        "coalesce(c.forget_at, c.committed_at + 604800000000)"
    };
}
pub(crate) use forget_at;
