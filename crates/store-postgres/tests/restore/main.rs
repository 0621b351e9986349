//! Restores: an older state replaces a newer one. What was given out since is never given out
//! again, and its holders get an error.
//!
//! Each test takes a copy of a store, lets the store continue, and then continues with the copy.
//! Standbys that take over are covered by the `failover` tests.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

mod databases;
mod folders;

mod given;

#[path = "../careful/mod.rs"]
mod careful;
#[path = "../ground/mod.rs"]
mod ground;
