//! Event sourcing: state folded from a stream, and decisions on that state.
//!
//! An [`Aggregate`] is a state, the events it is folded from, and the fold. A decision reads the
//! state and returns new events. They are appended only if the stream is still at the version of
//! that state (optimistic concurrency); otherwise the decision runs again. Within one process,
//! decisions on the same aggregate are queued in FIFO order and share commits (group commit).
//! Across processes, the store's version check resolves conflicts.
//!
//! This module only builds commits and hands them to the store. Every name it uses there is spelled
//! in `keys.rs`.

mod aggregate;
mod aggregate_ref;
mod decision;
mod error;
mod executed;
mod execution;
mod into_events;
mod multi_decision;

mod folded;
mod load;
mod snapshots;

mod cached_stream;
mod participant;
mod rebase;

pub(crate) mod encoded;
pub(crate) mod keys;
mod operation;
mod options;
pub(crate) mod personal;
pub(crate) mod submit;

pub use aggregate::Aggregate;
pub use aggregate_ref::AggregateRef;
pub use decision::Decision;
pub use error::{ExecuteError, LoadError, VersionConflict};
pub use executed::{Executed, Provenance};
pub use folded::Loaded;
pub use into_events::IntoEvents;
pub use multi_decision::MultiDecision;
pub use participant::{AggregateSet, ParticipantSet};
pub use personal::Personal;
pub use snapshots::Snapshots;

pub(crate) use keys::snapshot as snapshot_key;
