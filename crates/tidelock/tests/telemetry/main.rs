//! What Tidelock tells of what it does: breadcrumbs in their spans, and metrics; on every store,
//! and never a payload.
//!
//! Everything that the process says is captured, whoever says it. Each case has a reaction of its
//! own, named after the case and the store, with a number.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod breadcrumbs;
mod capture;
mod claims;
mod contention;
mod meter;
#[allow(dead_code, reason = "the cases of reactions need more of it")]
#[path = "../reactions/stage.rs"]
mod stage;
