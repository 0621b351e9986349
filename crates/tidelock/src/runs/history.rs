//! What happened in a run: entries in its stream, only ever appended.

mod entry;

pub(crate) use entry::*;
pub use entry::{Outcome, RunFailure, Verdict};
