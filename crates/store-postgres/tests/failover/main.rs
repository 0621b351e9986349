//! A server dies, or is thought to be dead, and its standby takes over: what is kept, what can be
//! lost, and who is told.
//!
//! Real servers on the loopback, real kills. That other ways of putting an older state in a newer
//! one's place are noticed too is the matter of the `restore` tests.

// Clippy lets tests unwrap, but not what they have in common.
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
