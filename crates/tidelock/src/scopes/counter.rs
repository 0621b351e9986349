//! Counter scopes: the document is one integer, and the store itself adds to it.
//!
//! An addition needs no read and cannot conflict, so any number of processes can count
//! concurrently. Only the first addition must know that it is the first: counting must not recreate
//! a deleted scope.

use std::any::TypeId;

use serde_json::Value;
use tidelock_store::{Bounds, RecordWrite};

use super::edits;
use super::error::ScopeError;
use super::mutated::{Mutated, MutationOutcome};
use super::name::Name;
use super::state::ScopeState;
use crate::handle::Tidelock;

/// Whether every integer is a valid state of this type.
pub(crate) fn is_counter<S: ScopeState>() -> bool {
    [TypeId::of::<i64>(), TypeId::of::<Value>()].contains(&TypeId::of::<S>())
}

/// Adds and returns the sum.
pub(crate) async fn add<S: ScopeState>(
    tidelock: &Tidelock,
    name: &Name,
    by: i64,
) -> Result<Mutated<i64>, ScopeError> {
    let written = edits::write::<S>(tidelock, name, |expected| {
        let write = RecordWrite::add(name.key(), by, Bounds::NONE);
        RecordWrite { expected, ..write }
    });
    let (revision, value) = written.await?;
    let revision = revision.expect("a counter that was added to has a revision");
    Ok(Mutated { value, outcome: MutationOutcome::Applied(revision), attempts: 1, replayed: false })
}
