//! Leases between several processes' worth of handles on one real server.
//!
//! The rules are the contract's and are in the conformance suite. Here is what depends on the
//! database: what its row locks let through, which of its connections are free, whose clock counts,
//! and what it has to read.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod calendar;
mod cost;
mod fronts;
mod heartbeat;
mod recheck;
mod takeover;

#[path = "../ground/mod.rs"]
mod ground;
