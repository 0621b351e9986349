//! What happened in a run: entries in its stream, only ever appended.

mod entry;
mod load;
mod reading;

pub(crate) use entry::*;
pub use entry::{RunFailure, RunOutcome, Verdict};
pub(crate) use load::{events, load};
pub(crate) use reading::{each, find, has, newest, outcome};
