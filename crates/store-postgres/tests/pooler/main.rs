//! The store behind a pooler in transaction mode: with `prepare=never` nothing relies on session
//! state.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

mod pgbouncer;
mod whole;

#[path = "../ground/mod.rs"]
mod ground;
