//! Reactions, on every store.
//!
//! Each case is a function of a [`TestStore`](tidelock_test_stage::TestStore) and becomes three
//! tests: in memory (where time is simulated, so that waiting costs nothing), on an SQLite file and
//! on PostgreSQL (each handle with connections of its own, as other processes have them).

// Clippy lets tests unwrap, but not what they have in common.
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
mod routing;
mod stage;
mod timeouts;
