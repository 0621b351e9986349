//! The promises of the layer, on every store: the numbers are those of `docs/guarantees.md`.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod client;
mod till;

mod answers;
mod errors;
mod failures;
mod gone;
mod order;
mod refusals;
mod servers;
mod together;
mod traces;
mod unrecorded;

#[cfg(unix)]
mod processes;
