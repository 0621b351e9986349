//! Events: state folded from a stream, and decisions on it.
//!
//! An [`Aggregate`] is a state, the events that it is folded from, and how to fold them. A decision
//! looks at the state and answers with new events, which are appended only if the stream is still
//! where the state was: otherwise the decision is taken again. In one process, those who decide
//! about one aggregate stand in a line and share commits; across processes the store's version
//! check does the rest.
//!
//! The pattern only builds commits and hands them to the store. Every name that it uses there is
//! spelled in `keys.rs`.

mod aggregate;
mod aggregate_ref;
mod command;
mod decided;
mod error;
mod executed;
mod retry;
mod together;

mod folded;
mod load;
mod snapshots;

mod line;
mod lines;
mod seat;

pub(crate) mod encoded;
pub(crate) mod keys;
mod operation;
mod options;
pub(crate) mod personal;
pub(crate) mod sender;

pub use aggregate::Aggregate;
pub use aggregate_ref::AggregateRef;
pub use command::Command;
pub use decided::Decided;
pub use error::{ExecuteError, LoadError, VersionConflict};
pub use executed::{Executed, How};
pub use folded::Loaded;
pub use personal::Personal;
pub use retry::RetryPolicy;
pub use seat::{Seats, Streams};
pub use snapshots::Snapshots;
pub use together::MultiDecision;

pub(crate) use keys::snapshot as snapshot_key;
pub(crate) use lines::Lines;
pub(crate) use retry::{Attempts, Random};
pub(crate) use sender::send;
