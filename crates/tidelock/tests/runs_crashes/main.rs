//! Durable runs in real processes that die: at every await point of a run, and in each other's way.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod doom;
mod everywhere;
mod executors;
mod history;
mod order;
