//! What became of a mutation.

use serde::{Deserialize, Serialize};
use tidelock_store::Revision;

/// What became of a mutation, and what it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutated<R = ()> {
    /// What the invocation that counted returned.
    pub value: R,
    /// What it did.
    pub outcome: MutationOutcome,
    /// How many attempts it took.
    pub attempts: u32,
    /// It was done before, under the same operation: this is what it did then.
    pub replayed: bool,
}

/// What a mutation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutationOutcome {
    /// It is in the scope since this revision, which callers who shared a commit share.
    Applied(Revision),
    /// There was nothing to do: the scope was like that already, at this revision, and nothing was
    /// written.
    Unchanged(Option<Revision>),
}

impl<R> Mutated<R> {
    /// Whether it changed anything.
    pub fn is_applied(&self) -> bool {
        matches!(self.outcome, MutationOutcome::Applied(_))
    }

    /// The scope's revision then; none if there is no scope.
    pub fn revision(&self) -> Option<Revision> {
        match self.outcome {
            MutationOutcome::Applied(revision) => Some(revision),
            MutationOutcome::Unchanged(revision) => revision,
        }
    }
}
