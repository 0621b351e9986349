//! Event sourcing: state folded from a stream, and decisions on that state.
//!
//! An [`Aggregate`] is a state, the events it is folded from, and the fold. A decision reads the
//! state and returns new events. They are appended only if the stream is still at the version of
//! that state (optimistic concurrency); otherwise the decision runs again. Within one process,
//! decisions on the same aggregate are queued in FIFO order and share commits (group commit).
//! Across processes, the store's version check resolves conflicts.
//!
//! Start at [`Tidelock::aggregate`](crate::Tidelock::aggregate), and at
//! [`Tidelock::decide`](crate::Tidelock::decide) for several aggregates in one commit.
//!
//! This module only builds commits and hands them to the store. Every name it uses there is spelled
//! in `keys.rs`.

mod aggregate;
mod aggregate_ref;
mod decision;
pub(crate) mod error;
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
mod tx_events;

pub use aggregate::Aggregate;
pub use aggregate_ref::AggregateRef;
pub use decision::Decision;
pub(crate) use error::ExecuteError;
pub use error::{LoadError, VersionConflict};
pub use executed::{Executed, Provenance};
pub use folded::Loaded;
pub use into_events::IntoEvents;
pub use multi_decision::MultiDecision;
pub use participant::{AggregateSet, ParticipantSet};
pub use personal::{Personal, SubjectInfo};
pub use snapshots::Snapshots;

pub use crate::event::{DecodeError, Upcaster};
pub use crate::recorded::{ReadError, Recorded, Unreadable};

pub(crate) use execution::{erased, moved};
pub(crate) use keys::snapshot as snapshot_key;
