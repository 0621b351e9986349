//! Result of a mutation.

use serde::{Deserialize, Serialize};
use tidelock_store::Revision;

/// Result of a mutation: the returned value and the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutated<R = ()> {
    /// The value returned by the invocation that took effect.
    pub value: R,
    /// The outcome.
    pub outcome: MutationOutcome,
    /// Number of attempts.
    pub attempts: u32,
    /// Whether this is the recorded result of an earlier call with the same operation id.
    pub replayed: bool,
}

/// Outcome of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutationOutcome {
    /// Committed at this revision. Callers that share a commit share the revision.
    Applied(Revision),
    /// The mutation changed nothing: the scope was equal already, at this revision, and nothing was
    /// written.
    Unchanged(Option<Revision>),
}

impl<R> Mutated<R> {
    pub(super) fn map<T>(self, into: impl FnOnce(R) -> T) -> Mutated<T> {
        let Self { value, outcome, attempts, replayed } = self;
        Mutated { value: into(value), outcome, attempts, replayed }
    }

    /// Whether the mutation changed the scope.
    pub fn is_applied(&self) -> bool {
        matches!(self.outcome, MutationOutcome::Applied(_))
    }

    /// Returns the scope's revision afterwards; `None` if the scope does not exist.
    pub fn revision(&self) -> Option<Revision> {
        match self.outcome {
            MutationOutcome::Applied(revision) => Some(revision),
            MutationOutcome::Unchanged(revision) => revision,
        }
    }
}
