//! Leases between several handles, as many processes would have, on one real server.
//!
//! The rules are the contract's and are tested by the conformance suite. These tests cover what
//! depends on the database: its row locks, its connections, its clock, and its cost.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

mod calendar;
mod cost;
mod heartbeat;
mod recheck;
mod scan_hints;
mod takeover;

#[path = "../ground/mod.rs"]
mod ground;
