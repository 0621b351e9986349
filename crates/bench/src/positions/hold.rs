//! A transaction that somebody left open: a slow report, a backup, a debugger at a breakpoint.

use tokio_postgres::Client;

use crate::database::connect;
use crate::failure::Failure;

/// An open transaction on a connection of its own.
pub(super) struct Hold(Client);

impl Hold {
    /// One that only reads, and sees what was there when it began: no row version that was alive then, or has come since,
    /// can be cleared away.
    pub(super) async fn snapshot(url: &str) -> Result<Self, Failure> {
        Self::begin(url, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pg_class")
            .await
    }

    /// One that has written, somewhere else.
    pub(super) async fn writer(url: &str) -> Result<Self, Failure> {
        Self::begin(url, "BEGIN; SELECT pg_current_xact_id()").await
    }

    async fn begin(url: &str, sql: &str) -> Result<Self, Failure> {
        let client = connect(&url.parse()?).await?;
        client.batch_execute(sql).await?;
        Ok(Self(client))
    }

    pub(super) async fn release(self) -> Result<(), Failure> {
        Ok(self.0.batch_execute("ROLLBACK").await?)
    }
}
