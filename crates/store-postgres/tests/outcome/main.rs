//! Unknown outcomes: what a caller may conclude from a call without an answer.
//!
//! Servers are killed, replies are lost, callers give up and futures are dropped, each during a
//! commit. An error with advice `Later` means that nothing was written. After one with advice
//! `Unknown` the same commit is sent again, and then it is there once.

// Clippy lets tests unwrap, but not their helpers.
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
