//! Runs: durable workflows as plain async functions.
//!
//! A run is a history of what happened in it, kept in a stream of its own, and the function that is replayed against it: a step
//! that is recorded is not done again. Whoever holds the lease of the run's work item drives it; every write carries the
//! lease's fence and the version of the history that it was decided on, so a worker that lost its lease writes nothing.
//!
//! Nothing here enters the store's contract: a run is a stream, a few records and a work item.

// The client and the engine stand on these; each takes what it needs.
#![allow(dead_code)]

pub(crate) mod history;
pub(crate) mod keys;
mod names;
pub(crate) mod opening;
pub(crate) mod summary;

pub use history::{Outcome, RunFailure, Verdict};
pub use names::{InvalidName, RunId, StepName, WorkflowName, WorkflowVersion};
pub use summary::{Parent, RunState};
