//! Scopes: small state documents that many callers change at once.
//!
//! A [`Scope`] is one document: of a request, a session, a user, an organization, or of a
//! [kind](ScopeKind) of your own. The same calls change it wherever it lives. In this process's
//! memory, callers stand in a queue and each sees what the one before it left; there is nothing to
//! conflict with. In the store, callers of one process stand in the same queue and share commits,
//! and the record's revision guards against everybody else: who comes too late is run again on what
//! is there now, within a budget of time.
//!
//! What this is not: a history (that is what [aggregates](crate::Aggregate) are), a lock, or a
//! quota. The pattern only builds commits and hands them to the store; every name that it uses
//! there is spelled in `keys.rs`.

mod kind;
mod scope;
mod state;

mod document;
mod error;
mod mutated;
mod mutation;
mod watch;

mod change;
mod mutator;
mod pointer;
mod proposal;

mod budget;
mod fair_mutex;
mod reentrancy;
mod shared_timer;
mod sync;

mod local;

mod batched;
mod counter;
mod exclusive;
mod line;
mod lines;

mod keys;
mod listing;
mod name;
mod operation;
mod options;

pub use document::Document;
pub use error::ScopeError;
pub use kind::ScopeKind;
pub use listing::{ScopeInfo, ScopePage};
pub use mutated::{Mutated, MutationOutcome};
pub use mutation::Mutation;
pub use scope::Scope;
pub use state::ScopeState;
pub use watch::ScopeWatch;

pub(crate) use lines::Lines;
