//! Scopes: in memory with a paused clock, and in every store.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod basket;
mod lossy;

mod contention;
mod deadlines;
mod documents;
mod edits;
mod gone;
mod once;
mod operations;
mod queue;
mod sharing;
mod watching;
