//! An older state is put in a newer one's place: whatever was given out since then is never given
//! out again, and whoever holds it is told.
//!
//! Each test takes a copy of a store, lets the store go on, and then goes on with the copy. That
//! standbys which take over are noticed too is the matter of the `failover` tests.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod databases;
mod folders;

mod given;

#[path = "../careful/mod.rs"]
mod careful;
#[path = "../ground/mod.rs"]
mod ground;
