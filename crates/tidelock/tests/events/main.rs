//! Events: every promise about them, on every store.
//!
//! Concurrent writers are other `Tidelock`s, with their own connections: they share nothing but the
//! store.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod harness;
mod meddler;
mod shop;

mod cache;
mod commit;
mod commuting;
mod contention;
mod evolution;
mod execute;
mod feed;
mod hostile;
mod late_commits;
mod metadata;
mod operations;
mod own_sql;
mod personal;
mod snapshots;
mod together;
mod transact;
mod transact_ends;
mod transact_once;
mod transact_reads;
mod travel;
