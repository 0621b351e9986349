//! Failover: a server dies, or is believed to be dead, and its standby takes over.
//!
//! Real servers on the loopback, real kills. Other ways of replacing a newer state by an older one
//! are covered by the `restore` tests.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

mod kept;
mod lost;
mod returned;
mod silent;
mod wait;

mod audit;
mod load;
mod pair;

#[path = "../careful/mod.rs"]
mod careful;
#[path = "../ground/mod.rs"]
mod ground;
