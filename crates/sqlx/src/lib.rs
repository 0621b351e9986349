//! Tidelock's commit inside a transaction of sqlx.
//!
//! A service that already writes its own tables with sqlx begins a transaction as it always does,
//! runs its statements, and lets Tidelock write into the same transaction: events, records, queue
//! items, runs. One COMMIT makes all of it durable. What it costs, and what else has to be known,
//! is in the guide to transactions.
//!
//! ```no_run
//! use sqlx08 as sqlx; // in your program it is just `sqlx`
//! use tidelock::prelude::*;
//!
//! # async fn example(tidelock: Tidelock, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let mut sql = pool.begin().await?;
//! sqlx::query("INSERT INTO invoices (id, cents) VALUES (7, 900)").execute(&mut *sql).await?;
//! let ((), pending) = tidelock_sqlx::transact_in(&tidelock, &mut sql, async |tx: Tx| -> tidelock::Result<()> {
//!     tx.enqueue_item(tx.tidelock().queue("mail").enqueue("invoice-7"))?;
//!     tx.start("delivery", "order-7", &7).version(1).await?;
//!     Ok(())
//! })
//! .await?;
//! sql.commit().await?;
//! pending.announce();
//! # Ok(())
//! # }
//! ```
//!
//! Versions 0.8 and 0.9 of sqlx are features, `sqlx-0-8` (on by default) and `sqlx-0-9`; both can
//! be on at once, and neither pulls in macros, TLS or a runtime.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connection;
mod executor;
#[cfg(feature = "sqlx-0-8")]
mod sqlx_0_8;
#[cfg(feature = "sqlx-0-9")]
mod sqlx_0_9;

use std::future::Future;

use tidelock::postgres::PendingCommit;
use tidelock::store::Commit;
use tidelock::{Error, Result, Tidelock, TransactIn, Tx};

pub use connection::{SqlxConnection, SqlxTransaction};

/// Runs a closure that stages like that of [`Tidelock::transact`], and writes all of it in a
/// transaction of sqlx. See [`Tidelock::transact_in`].
///
/// The transaction is a `sqlx::Transaction<Postgres>`, or a `PgConnection` on which one is open.
/// The future returns the closure's value, and a [`Pending`](tidelock::Pending) to announce after
/// the COMMIT.
///
/// # Errors
/// Those of [`Tidelock::transact_in`].
pub fn transact_in<'a, S, T, E, F, R>(
    tidelock: &'a Tidelock,
    transaction: &'a mut S,
    closure: F,
) -> TransactIn<'a, SqlxConnection<'a>, F>
where
    S: SqlxTransaction,
    F: FnOnce(Tx) -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: From<Error>,
{
    tidelock.transact_in(transaction.connection(), closure)
}

/// Makes a commit as it is in a transaction of sqlx. See [`Tidelock::commit_in`].
///
/// # Errors
/// Those of [`Tidelock::commit_in`]; a conflict is an outcome.
pub async fn commit_in<S: SqlxTransaction>(
    tidelock: &Tidelock,
    transaction: &mut S,
    commit: &Commit,
) -> Result<PendingCommit> {
    tidelock.commit_in(transaction.connection(), commit).await
}
