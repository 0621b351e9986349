//! Events: every sentence about them, on every store.
//!
//! Where it is about others who write at the same time, they are other `Tidelock`s, over
//! connections of their own: nothing is shared with them but the store.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod ground;
mod meddler;
mod shop;

mod cache;
mod commuting;
mod contention;
mod evolution;
mod execute;
mod hostile;
mod metadata;
mod operations;
mod personal;
mod snapshots;
mod together;
mod transact;
mod travel;
