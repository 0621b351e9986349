//! Durable runs in real processes that die: at every await point, and concurrently.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod crash_point;
mod everywhere;
mod executors;
mod history;
mod order;
