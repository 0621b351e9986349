//! What happened in a run: entries in its stream, only ever appended.

mod entry;
mod reading;

pub(crate) use entry::*;
pub use entry::{Outcome, RunFailure, Verdict};
pub(crate) use reading::{each, outcome};
