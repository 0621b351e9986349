//! Edits of a scope's document that the store itself makes.
//!
//! Such an edit needs no read and cannot conflict, so any number of processes can edit one document
//! concurrently. Only the first write must know that it is the first: an edit must not recreate a
//! deleted scope.

use std::any::TypeId;

use serde_json::Value;
use tidelock_store::{
    Commit, Edit, ExpectedRevision, RecordWrite, Revision, Slot, ViolationReason,
};

use super::call::is_mutating;
use super::error::ScopeError;
use super::mutated::{Mutated, MutationOutcome};
use super::name::Name;
use super::options::Options;
use super::state::ScopeState;
use crate::group_commit::Submit;
use crate::handle::Tidelock;

/// Whether the store can make this edit: every document is a valid state of the type, and the
/// answer tells whether the document has changed.
pub(super) fn is_for<S: ScopeState>(edit: &Edit, options: &Options<S>) -> bool {
    let is_told = !matches!(edit, Edit::Increment { by: 0, .. });
    TypeId::of::<S>() == TypeId::of::<Value>() && is_told && options.store_can_edit()
}

/// Makes the edit, and returns the number that it gives.
pub(super) async fn make<S: ScopeState>(
    tidelock: &Tidelock,
    name: &Name,
    options: &Options<S>,
    edit: &Edit,
) -> Result<Mutated<i64>, ScopeError> {
    let written = write::<S>(tidelock, name, |expected| {
        options.with_ttl(RecordWrite::edit(name.key(), expected, edit.clone()))
    });
    let (revision, value) = written.await?;
    let is_unchanged = value == 0
        && matches!(edit, Edit::SetEntry { .. } | Edit::RemoveEntry { .. } | Edit::Merge(_));
    let outcome = match revision {
        Some(revision) if !is_unchanged => MutationOutcome::Applied(revision),
        revision => MutationOutcome::Unchanged(revision),
    };
    Ok(Mutated { value, outcome, attempts: 1, replayed: false })
}

/// Writes to the record of a scope that exists, or that never existed.
pub(super) async fn write<S: ScopeState>(
    tidelock: &Tidelock,
    name: &Name,
    write: impl Fn(ExpectedRevision) -> RecordWrite,
) -> Result<(Option<Revision>, i64), ScopeError> {
    // It would be made again with each attempt of the mutator that it is called from.
    if is_mutating::<S>(tidelock, name) {
        return Err(ScopeError::reentered(name));
    }
    let mut expected = ExpectedRevision::Exists;
    loop {
        let commit = Commit::new().with_retry_id().write(write(expected));
        let conflict = match tidelock.submit(&commit).await?.committed() {
            Ok(committed) => {
                let written = committed.writes.first().expect("one write gives one answer");
                return Ok((written.revision, written.sum.expect("it gives a number")));
            }
            Err(conflict) => conflict,
        };
        expected = match &conflict.first().reason {
            ViolationReason::Record { found: Slot::Absent, .. } => ExpectedRevision::Absent,
            ViolationReason::Record { found: Slot::Live(_), .. } => ExpectedRevision::Exists,
            ViolationReason::Record { found: Slot::Deleted(revision), .. } => {
                return Err(ScopeError::gone(name, Some(*revision)));
            }
            ViolationReason::Unfit { reason, .. } => return Err(unfit(name, reason.clone())),
            other => return Err(unfit(name, other.to_string())),
        };
    }
}

fn unfit(name: &Name, reason: String) -> ScopeError {
    ScopeError::Unfit { scope: name.to_string(), reason }
}
