//! What can come of a mutation or a read, besides what was wanted.

use std::convert::Infallible;
use std::time::Duration;

use tidelock_store::{Conflict, Revision, StoreError};

use super::name::Name;

/// A mutation that did not happen, or a read that failed. Nothing was written, unless a `Store`
/// error says that it may have been.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError<X = Infallible> {
    /// The mutator said no.
    #[error("{0}")]
    Refused(X),
    /// The budget ended while others had their turn, or while the mutator ran. It is cancelled, and
    /// will never be committed.
    #[error(
        "scope {scope}: mutation timed out after {budget:?} of waiting and working; it is cancelled and changes nothing"
    )]
    TimedOut {
        /// Which scope.
        scope: String,
        /// How long it had.
        budget: Duration,
    },
    /// Others were quicker, every time, until the budget ended.
    #[error(
        "scope {scope}: gave up after {attempts} attempts, because others changed it each time; give it a longer budget"
    )]
    Contended {
        /// Which scope.
        scope: String,
        /// How many there were.
        attempts: u32,
    },
    /// A mutator called into the scope that it is about to change.
    #[error(
        "scope {scope}: called from inside its own mutator, where it would wait for itself; do both in one mutator"
    )]
    Reentered {
        /// Which scope.
        scope: String,
    },
    /// The scope is not at the revision that the caller named.
    #[error("scope {scope}: expected revision {expected}, found {found}")]
    Moved {
        /// Which scope.
        scope: String,
        /// Where it was expected.
        expected: Revision,
        /// Where it is.
        found: Revision,
    },
    /// The scope was deleted or has expired, or was to exist and never did.
    #[error("scope {scope}: {}; create it to begin anew", gone(.revision))]
    Gone {
        /// Which scope.
        scope: String,
        /// Its last revision; none if it never was there.
        revision: Option<Revision>,
    },
    /// The scope was to be created, and is there.
    #[error("scope {scope}: is there already, at revision {revision}")]
    Taken {
        /// Which scope.
        scope: String,
        /// Its revision.
        revision: Revision,
    },
    /// The document is not such that this can be done to it, or would not be what its type says.
    #[error("scope {scope}: {reason}")]
    Unfit {
        /// Which scope.
        scope: String,
        /// What does not fit.
        reason: String,
    },
    /// The scope's own check does not allow what the state would be.
    #[error("scope {scope}: rejected by its check: {reason}")]
    Rejected {
        /// Which scope.
        scope: String,
        /// What the check said.
        reason: String,
    },
    /// What is stored is not what the type says.
    #[error("scope {scope}: cannot be read: {reason}")]
    Unreadable {
        /// Which scope.
        scope: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A part that the caller added to the commit did not hold.
    #[error(transparent)]
    Part(Conflict),
    /// The store failed, or the name is none.
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

    /// Why the mutator said no, if it did.
    pub fn refused(self) -> Option<X> {
        match self {
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }
}

impl ScopeError {
    /// The same, where a mutator may say no.
    pub(super) fn widen<X>(self) -> ScopeError<X> {
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
