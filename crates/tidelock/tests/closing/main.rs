//! Closing streams, on every store: every promise about it, and a caller that dies at every call.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod account;
mod behind;
mod close;
mod crowd;
mod deaths;
mod leftovers;
mod many;
mod races;
mod reactions;
mod rebuild;
mod window;

#[path = "../reactions/stage.rs"]
#[allow(dead_code)] // not every case needs all of it
mod stage;
