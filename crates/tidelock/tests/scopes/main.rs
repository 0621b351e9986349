//! Scopes: in memory with a paused clock, and in every store.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod basket;
mod lossy;

mod contention;
mod deadlines;
mod documents;
mod gone;
mod once;
mod operations;
mod queue;
mod sharing;
mod watching;
