//! Wake-ups: by notifications as long as they come, and by polling in any case.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

mod dead;
mod lost;
mod maintenance;
mod notified;
mod polled;

#[path = "../ground/mod.rs"]
mod ground;
#[path = "../stopped/mod.rs"]
mod stopped;
