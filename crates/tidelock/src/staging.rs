//! The unit of work: parts of a commit that code stages, one after another, and that land together.
//!
//! A handler's parts land with its acknowledgement, a step's with its record, and those of
//! `Tidelock::transact` by themselves. This module knows neither reactions nor runs.

mod commit_via;
mod decision;
mod fenced;
pub(crate) mod keys;
mod landing;
mod merge;
mod staged;
mod tx;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod tx_sql;

#[cfg(feature = "postgres")]
pub(crate) use commit_via::CallersTransaction;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use commit_via::CommitVia;
pub(crate) use commit_via::Sender;
#[cfg(feature = "sqlite")]
pub(crate) use commit_via::SqliteParts;
pub(crate) use decision::Decision;
pub use fenced::Fenced;
pub(crate) use landing::Landing;
pub(crate) use staged::{DECISION_ATTEMPTS, Landed, Staged, Tried, join, too_slow};
pub use tx::Tx;
pub(crate) use tx::{TxOwner, twice};
