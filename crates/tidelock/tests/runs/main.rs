//! Durable runs, on every store.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod cast;
mod steps;
