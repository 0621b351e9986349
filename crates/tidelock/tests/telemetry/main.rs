//! Telemetry: breadcrumbs in their spans, and metrics; on every store, and never a payload.
//!
//! Everything that the process logs is captured. Each case has its own reaction, named after the
//! case and the store, with a number.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod breadcrumbs;
mod capture;
mod claims;
mod contention;
mod meter;
#[allow(dead_code, reason = "the cases of reactions need more of it")]
#[path = "../reactions/stage.rs"]
mod stage;
mod traces;
