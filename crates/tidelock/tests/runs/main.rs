//! Durable runs, on every store.
//!
//! Each case is a function of a [`Stage`](tidelock_test_stage::TestStore) and becomes three tests:
//! in memory (where time is simulated, so that waiting costs nothing), on an SQLite file and on
//! PostgreSQL (each handle with connections of its own, as other processes have them).

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod cast;
mod cut;

mod attempts;
mod children;
mod deaths;
mod endings;
mod replay;
mod steps;
mod together;
mod transact;

mod client;
mod driven;
mod flow;
mod listing;
mod many;
mod once;
mod races;
mod reactions;
mod retention;
mod schedules;
mod signals;
mod stalls;
mod waiting;
