//! SQL statements with the types of their parameters.
//!
//! The types are given explicitly, so that a statement can run with or without being prepared:
//! behind a proxy in transaction mode, a prepared statement would not be found again.

use tokio_postgres::types::Type;

/// A statement. Its text names the schema `tidelock`, which each store replaces by its own.
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

/// Replaces the schema `tidelock` by the store's.
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

/// When a commit `c` is forgotten. The expiry index is over this same expression.
macro_rules! forget_at {
    () => {
        "coalesce(c.forget_at, c.committed_at + 604800000000)"
    };
}
pub(crate) use forget_at;
