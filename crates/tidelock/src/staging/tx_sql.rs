//! The user's own SQL as a part of a unit of work.

#[cfg(feature = "postgres")]
use std::sync::Arc;

use tidelock_store::StoreError;

#[cfg(feature = "postgres")]
use super::Staged;
use super::{CommitVia, Tx};
use crate::error::Result;

impl Tx {
    /// Begins a transaction in the store's PostgreSQL database that lands with this unit of work:
    /// read and write your own tables in it. Later calls return the same one. Drop it before the
    /// closure or handler returns.
    ///
    /// If the closure or handler runs again, its statements were rolled back, and it gets another
    /// transaction.
    ///
    /// # Errors
    /// `Invalid` if the store is not on PostgreSQL; `Unavailable` if there is no connection.
    ///
    /// # Examples
    /// ```no_run
    /// # use tidelock::prelude::*;
    /// # async fn example(tidelock: Tidelock) -> tidelock::Result<()> {
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let sql = tx.postgres().await?;
    ///         sql.execute("UPDATE invoices SET paid = true WHERE id = $1", &[&7_i64]).await?;
    ///         tx.enqueue_item(tx.tidelock().queue("receipts").enqueue("invoice-7"))
    ///     })
    ///     .await
    /// # }
    /// ```
    #[cfg(feature = "postgres")]
    pub async fn postgres(&self) -> Result<Arc<tidelock_store_postgres::PgTx>> {
        let open = |staged: &mut Staged| match &staged.via {
            CommitVia::Postgres(open) => Some(open.clone()),
            _ => None,
        };
        if let Some(open) = self.staged(open)? {
            return Ok(open);
        }
        let store = self.tidelock().postgres().ok_or_else(|| elsewhere("PostgreSQL"))?;
        let begun = Arc::new(store.begin().await?);
        // A concurrent call may have been faster.
        let open = self.staged(|staged| match open(staged) {
            Some(first) => first,
            None => {
                staged.via = CommitVia::Postgres(begun.clone());
                begun
            }
        })?;
        Ok(open)
    }

    /// Stages statements for your own tables in the store's SQLite file. They run in the commit's
    /// transaction, in the order in which they were staged.
    ///
    /// # Errors
    /// `Invalid` if the store is not in SQLite.
    ///
    /// # Examples
    /// ```no_run
    /// # use tidelock::prelude::*;
    /// use tidelock::sqlite::{SqlStatement, Value};
    ///
    /// # async fn example(tidelock: Tidelock) -> tidelock::Result<()> {
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let open = SqlStatement::new("SELECT sum(cents) FROM invoices WHERE NOT paid");
    ///         let due = tx.sqlite_rows(open).await?; // compared again at the commit
    ///         tx.sqlite([SqlStatement::new("UPDATE invoices SET paid = 1")])?;
    ///         match due[0][0] {
    ///             Value::Integer(cents) => tx.add("revenue", cents, ..),
    ///             _ => Ok(()),
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn sqlite(
        &self,
        own: impl IntoIterator<Item = tidelock_store_sqlite::SqlStatement>,
    ) -> Result<()> {
        self.sqlite_parts(|parts| parts.statements.extend(own))
    }

    /// Runs a query on your own tables in the store's SQLite file, and rests the commit on its
    /// rows: it is made again in the commit's transaction, and if it returns other rows then, the
    /// closure or handler runs again.
    ///
    /// It does not see what is only staged. A query that returns something else each time, such as
    /// the time of day, can never be committed.
    ///
    /// # Errors
    /// `Invalid` if the store is not in SQLite, or the query is refused.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite_rows(
        &self,
        query: tidelock_store_sqlite::SqlStatement,
    ) -> Result<Vec<Vec<tidelock_store_sqlite::Value>>> {
        let store = self.tidelock().sqlite().ok_or_else(|| elsewhere("SQLite"))?;
        let read = store.query(query).await?;
        let rows = read.rows().to_vec();
        self.sqlite_parts(|parts| parts.reads.push(read))?;
        Ok(rows)
    }

    #[cfg(feature = "sqlite")]
    fn sqlite_parts(&self, change: impl FnOnce(&mut super::SqliteParts)) -> Result<()> {
        let store = self.tidelock().sqlite().ok_or_else(|| elsewhere("SQLite"))?;
        Ok(self.staged(|staged| {
            if !matches!(staged.via, CommitVia::Sqlite(..)) {
                staged.via = CommitVia::Sqlite(store.clone(), super::SqliteParts::default());
            }
            if let CommitVia::Sqlite(_, parts) = &mut staged.via {
                change(parts);
            }
        })?)
    }
}

fn elsewhere(database: &str) -> StoreError {
    StoreError::invalid(format!("the store is not in {database}, so your SQL cannot land with it"))
}
