//! Being woken: by notifications as long as they come, and by polling whatever becomes of them.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod dead;
mod house;
mod lost;
mod notified;
mod polled;

#[path = "../ground/mod.rs"]
mod ground;
#[path = "../stopped/mod.rs"]
mod stopped;
