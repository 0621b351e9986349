//! Reactions, on every store.
//!
//! Each case is a function of a [`TestStore`](tidelock_test_stage::TestStore) and becomes three
//! tests: in memory (with simulated time), on an SQLite file and on PostgreSQL (each handle with
//! its own connections, like other processes).

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod dropped;
mod exactly_once;
mod exits;
mod follow;
mod idle;
mod many;
mod operators;
mod own_tables;
mod processes;
mod rebuilds;
mod routing;
mod skip;
mod stage;
mod starts;
mod timeouts;
mod wait_for;
