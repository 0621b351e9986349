//! A connection of any supported version of sqlx, as an executor of the store.

use std::fmt;

use tidelock::postgres::{ExecutorError, SqlExecutor, SqlQuery, SqlRow};
use tidelock::store::async_trait;

/// A transaction of sqlx on PostgreSQL, or a connection on which one is open.
pub trait SqlxTransaction: sealed::Sealed + Send {
    /// Borrows its connection.
    fn connection(&mut self) -> SqlxConnection<'_>;
}

/// A borrowed connection of sqlx, of whichever version.
pub struct SqlxConnection<'c>(pub(crate) Box<dyn SqlExecutor + 'c>);

impl fmt::Debug for SqlxConnection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxConnection").finish_non_exhaustive()
    }
}

#[async_trait]
impl SqlExecutor for SqlxConnection<'_> {
    async fn execute(&mut self, sql: &str) -> Result<(), ExecutorError> {
        self.0.execute(sql).await
    }

    async fn query(&mut self, queries: &[SqlQuery]) -> Result<Vec<Vec<SqlRow>>, ExecutorError> {
        self.0.query(queries).await
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}
