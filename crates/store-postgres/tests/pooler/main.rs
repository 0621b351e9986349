//! The store behind a pooler that gives every transaction another connection: with `prepare=never`
//! nothing relies on what a session keeps.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod pgbouncer;
mod whole;

#[path = "../ground/mod.rs"]
mod ground;
