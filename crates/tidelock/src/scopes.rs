//! Scopes: small state documents with concurrent writers.
//!
//! A [`Scope`] is one document: of a request, a session, a user, an organization, or of a custom
//! [kind](ScopeKind). The API is the same wherever the document is kept. In memory, mutations are
//! queued in FIFO order and each sees the result of the one before; there are no conflicts. In the
//! store, mutations of one process are queued in the same way and share commits (group commit). The
//! record's revision detects writes of other processes (optimistic concurrency): a mutation that
//! lost is run again on the current document, within its time budget.
//!
//! A scope is not a history (use [aggregates](crate::events::Aggregate)), a lock, or a quota. This
//! module only builds commits and hands them to the store; every name it uses there is spelled in
//! `keys.rs`.

mod kind;
mod scope;
mod state;

mod document;
mod error;
mod mutated;
mod mutation;
mod watch;

mod mutator;
mod proposal;
mod tx_change;
mod tx_scopes;

mod budget;
mod reentrancy;

mod local;

mod cached_scope;
mod call;
mod counter;
mod edits;

pub(crate) mod keys;
mod listing;
mod name;
mod operation;
mod options;

pub use document::Document;
pub use error::ScopeError;
pub use kind::ScopeKind;
pub use listing::{ScopeFilter, ScopeInfo, Scopes};
pub use mutated::{Mutated, MutationOutcome};
pub use mutation::Mutation;
pub(crate) use proposal::ScopeRead;
pub use scope::Scope;
pub use state::ScopeState;
pub use tx_change::DocumentChange;
pub use watch::ScopeWatch;

pub(crate) use name::Name;
