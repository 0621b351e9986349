//! The history of a run: entries in its stream, append-only.

mod entry;
mod read;

pub(crate) use entry::*;
pub use entry::{RunFailure, RunOutcome, Verdict};
pub(crate) use read::{each, events, find, has, load, newest, outcome};
