//! What a caller may believe of a call that gave no outcome: that it failed, or that it may have
//! happened.
//!
//! Servers are killed, replies are lost, callers give up and futures are dropped, each in the
//! middle of a commit. An error that says "later" means that nothing was written; after one that
//! says "unknown" the same commit is sent again, and then it is there once.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod closed;
mod dropped;
mod failed;
mod impatient;
mod killed;
mod panicked;
mod replies;
mod silent;
mod together;
mod turns;

#[path = "../../../store-sqlite/tests/dice/mod.rs"]
mod dice;
#[path = "../ground/mod.rs"]
mod ground;
#[path = "../stopped/mod.rs"]
mod stopped;
