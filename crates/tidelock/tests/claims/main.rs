//! The promises of claims, on every store: the numbers are those of `docs/guarantees.md`.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod answers;
mod compound;
mod compound_lifecycle;
mod detached;
mod idempotency;
mod lock;
mod lost_replies;
mod once;
mod processes;
mod quota;
mod races;
mod rate;
mod singleton;
