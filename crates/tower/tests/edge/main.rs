//! What the HTTP edge promises, on every store: the numbers are those of `docs/guarantees.md`.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod client;
mod till;

mod answers;
mod failures;
mod gone;
mod refusals;
mod servers;
mod together;
mod unrecorded;

#[cfg(unix)]
mod processes;
