//! Durable runs, on every store.
//!
//! Each case is a function of a [`TestStore`](tidelock_test_stage::TestStore) and becomes three
//! tests: in memory (with simulated time), on an SQLite file and on PostgreSQL (each handle with
//! its own connections, like other processes).

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod disconnect;
mod helpers;

mod attempts;
mod attributes;
mod children;
mod deaths;
mod endings;
mod replay;
mod select;
mod steps;
mod together;
mod transact;

mod bulk;
mod client;
mod driven;
mod flow;
mod listing;
mod many;
mod once;
mod races;
mod reactions;
mod replayed;
mod retention;
mod schedules;
mod signals;
mod stalls;
mod terminated_children;
mod test_app;
mod waiting;
