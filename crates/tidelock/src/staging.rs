//! Parts of a commit that somebody's code wants to land with its own: a handler's with its ack, a
//! step's with its record.

mod decision;
mod door;
mod stage;
mod staged;

pub(crate) use decision::Decision;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use door::CommitVia;
pub(crate) use stage::Stage;
pub(crate) use staged::{Landed, Staged, Tried, too_slow};
