//! The history of a run: entries in its stream, append-only.

mod entry;
mod load;
mod reading;

pub(crate) use entry::*;
pub use entry::{RunFailure, RunOutcome, Verdict};
pub(crate) use load::{events, load};
pub(crate) use reading::{each, find, has, newest, outcome};
