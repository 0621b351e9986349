//! What claims promise, on every store: the numbers are those of `docs/guarantees.md`.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod adding_up;
mod compound;
mod idempotency;
mod lock;
mod mumbling;
mod once;
mod passed;
mod processes;
mod quota;
mod races;
mod singleton;
