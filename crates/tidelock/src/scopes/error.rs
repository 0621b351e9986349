//! Errors of scope mutations and reads.

use std::convert::Infallible;
use std::time::Duration;

use tidelock_store::{Conflict, Revision, StoreError};

use super::name::Name;

/// Why a mutation was not applied, or a read failed.
///
/// Nothing was written, unless a `Store` error says that the outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError<X = Infallible> {
    /// The mutator returned an error.
    #[error("{0}")]
    Refused(X),
    /// The budget ended while the mutation waited in the queue or while the mutator ran. It is
    /// cancelled and will never be committed.
    #[error(
        "scope {scope}: mutation timed out after {budget:?} of waiting and working; it is cancelled and changes nothing"
    )]
    TimedOut {
        /// The scope.
        scope: String,
        /// The budget.
        budget: Duration,
    },
    /// Every attempt conflicted with another writer until the budget ended.
    #[error(
        "scope {scope}: gave up after {attempts} attempts, because others changed it each time; give it a longer budget"
    )]
    Contended {
        /// The scope.
        scope: String,
        /// Number of attempts.
        attempts: u32,
    },
    /// A mutator called into its own scope.
    #[error(
        "scope {scope}: called from inside its own mutator, where it would wait for itself; do both in one mutator"
    )]
    Reentered {
        /// The scope.
        scope: String,
    },
    /// The scope is not at the revision that the caller named.
    #[error("scope {scope}: expected revision {expected}, found {found}")]
    Moved {
        /// The scope.
        scope: String,
        /// The expected revision.
        expected: Revision,
        /// The actual revision.
        found: Revision,
    },
    /// The scope was deleted or has expired, or was required to exist and never did.
    #[error("scope {scope}: {}; create it first", gone(.revision))]
    Gone {
        /// The scope.
        scope: String,
        /// Its last revision; `None` if it never existed.
        revision: Option<Revision>,
    },
    /// The scope was to be created and exists already.
    #[error("scope {scope}: is there already, at revision {revision}")]
    Taken {
        /// The scope.
        scope: String,
        /// Its revision.
        revision: Revision,
    },
    /// The change does not fit the document, or the result would not match the state's type.
    #[error("scope {scope}: {reason}")]
    Unfit {
        /// The scope.
        scope: String,
        /// The reason.
        reason: String,
    },
    /// The scope's validation rejected the new state.
    #[error("scope {scope}: rejected by its check: {reason}")]
    Rejected {
        /// The scope.
        scope: String,
        /// The message of the validation.
        reason: String,
    },
    /// The stored document does not match the state's type.
    #[error("scope {scope}: cannot be read: {reason}")]
    Unreadable {
        /// The scope.
        scope: String,
        /// The reason.
        reason: String,
    },
    /// A part that the caller added to the commit was rejected.
    #[error(transparent)]
    Part(Conflict),
    /// The store failed, or the name is invalid.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn gone(revision: &Option<Revision>) -> String {
    match revision {
        Some(revision) => format!("was deleted or has expired, at revision {revision}"),
        None => "does not exist".to_owned(),
    }
}

impl<X> ScopeError<X> {
    pub(super) fn timed_out(name: &Name, budget: Option<Duration>) -> Self {
        Self::TimedOut { scope: name.to_string(), budget: budget.unwrap_or(Duration::MAX) }
    }

    pub(super) fn reentered(name: &Name) -> Self {
        Self::Reentered { scope: name.to_string() }
    }

    pub(super) fn gone(name: &Name, revision: Option<Revision>) -> Self {
        Self::Gone { scope: name.to_string(), revision }
    }

    pub(super) fn unreadable(name: &Name, reason: &str) -> Self {
        Self::Unreadable { scope: name.to_string(), reason: reason.to_owned() }
    }

    /// Returns the reason of a refusal; `None` for other errors.
    pub fn refused(self) -> Option<X> {
        match self {
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }
}

impl ScopeError {
    /// Converts to the error type of a mutator that can refuse.
    pub(crate) fn widen<X>(self) -> ScopeError<X> {
        self.map_refused(|never| match never {})
    }
}

impl<X> ScopeError<X> {
    /// Maps the reason of a refusal.
    pub fn map_refused<Y>(self, map: impl FnOnce(X) -> Y) -> ScopeError<Y> {
        match self {
            Self::Refused(reason) => ScopeError::Refused(map(reason)),
            Self::TimedOut { scope, budget } => ScopeError::TimedOut { scope, budget },
            Self::Contended { scope, attempts } => ScopeError::Contended { scope, attempts },
            Self::Reentered { scope } => ScopeError::Reentered { scope },
            Self::Moved { scope, expected, found } => ScopeError::Moved { scope, expected, found },
            Self::Gone { scope, revision } => ScopeError::Gone { scope, revision },
            Self::Taken { scope, revision } => ScopeError::Taken { scope, revision },
            Self::Unfit { scope, reason } => ScopeError::Unfit { scope, reason },
            Self::Rejected { scope, reason } => ScopeError::Rejected { scope, reason },
            Self::Unreadable { scope, reason } => ScopeError::Unreadable { scope, reason },
            Self::Part(conflict) => ScopeError::Part(conflict),
            Self::Store(error) => ScopeError::Store(error),
        }
    }
}
