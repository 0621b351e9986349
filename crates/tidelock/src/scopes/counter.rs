//! Counter scopes: the document is one integer, and the store itself adds to it.
//!
//! An addition needs no read and cannot conflict, so any number of processes can count
//! concurrently. Only the first addition must know that it is the first: counting must not recreate
//! a deleted scope.

use std::any::TypeId;

use serde_json::Value;
use tidelock_store::{
    Bounds, Commit, Committed, ExpectedRevision, RecordWrite, Slot, ViolationReason,
};

use super::error::ScopeError;
use super::mutated::{Mutated, MutationOutcome};
use super::name::Name;
use super::state::ScopeState;
use crate::group_commit::Submit;
use crate::handle::Tidelock;

/// Whether every integer is a valid state of this type.
pub(crate) fn is_counter<S: ScopeState>() -> bool {
    [TypeId::of::<i64>(), TypeId::of::<Value>()].contains(&TypeId::of::<S>())
}

/// Adds and returns the sum.
pub(crate) async fn add(
    tidelock: &Tidelock,
    name: &Name,
    by: i64,
) -> Result<Mutated<i64>, ScopeError> {
    let mut expected = ExpectedRevision::Exists;
    loop {
        let mut write = RecordWrite::add(name.key(), by, Bounds::NONE);
        write.expected = expected;
        let commit = Commit::new().with_retry_id().write(write);
        let sent = tidelock.submit(&commit).await?;
        let conflict = match sent.committed() {
            Ok(committed) => return Ok(counted(&committed)),
            Err(conflict) => conflict,
        };
        expected = match &conflict.first().reason {
            ViolationReason::Record { found: Slot::Absent, .. } => ExpectedRevision::Absent,
            ViolationReason::Record { found: Slot::Live(_), .. } => ExpectedRevision::Exists,
            ViolationReason::Record { found: Slot::Deleted(revision), .. } => {
                return Err(ScopeError::gone(name, Some(*revision)));
            }
            other => {
                return Err(ScopeError::Unfit {
                    scope: name.to_string(),
                    reason: other.to_string(),
                });
            }
        };
    }
}

fn counted(committed: &Committed) -> Mutated<i64> {
    let written = committed.writes.first().expect("one write gives one answer");
    let revision = written.revision.expect("a counter that was added to has a revision");
    let value = written.sum.expect("an addition has a sum");
    Mutated { value, outcome: MutationOutcome::Applied(revision), attempts: 1, replayed: false }
}
