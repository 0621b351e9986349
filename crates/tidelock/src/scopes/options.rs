//! Options of a mutation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Commit, ExpectedRevision, RecordWrite, When, limits};

use super::budget;
use super::error::ScopeError;
use super::name::Name;
use crate::claims::Fingerprint;

pub(crate) struct Options<S> {
    pub(super) budget: Option<Duration>,
    pub(super) ttl: Option<Duration>,
    pub(super) check: Option<Check<S>>,
    pub(super) operation: Option<OperationId>,
    /// How long an operation id is remembered.
    pub(super) remembered: Duration,
    /// The revision that the caller requires.
    pub(super) expected: ExpectedRevision,
    /// Additional parts of the commit.
    pub(super) also: Commit,
}

/// Validation of a state; returns what is wrong with it.
pub(crate) type Check<S> = Arc<dyn Fn(&S) -> Result<(), String> + Send + Sync>;

/// Id of a mutation that takes effect once, and its retention.
#[derive(Debug, Clone)]
pub(crate) struct OperationId {
    pub(super) id: String,
    pub(super) remembered: Duration,
    /// Fingerprint of the mutation, once known.
    pub(super) of: Option<Fingerprint>,
}

impl OperationId {
    pub(super) fn new(id: impl Into<String>, remembered: Duration) -> Self {
        Self { id: id.into(), remembered, of: None }
    }
}

impl<S> Options<S> {
    pub(super) fn new(ttl: Option<Duration>) -> Self {
        Self {
            budget: Some(budget::DEFAULT),
            ttl,
            check: None,
            operation: None,
            remembered: limits::COMMIT_MEMORY,
            expected: ExpectedRevision::Any,
            also: Commit::new(),
        }
    }

    /// Whether the mutation needs its own commit.
    pub(super) fn needs_own_commit(&self) -> bool {
        self.operation.is_some() || self.expected != ExpectedRevision::Any || self.also.parts() > 0
    }

    /// Whether the store can edit the document itself: no option is set that this would bypass.
    pub(super) fn store_can_edit(&self) -> bool {
        !self.needs_own_commit() && self.check.is_none()
    }

    /// Whether the store can add to a counter itself. An addition renews no TTL.
    pub(super) fn store_can_add(&self) -> bool {
        self.store_can_edit() && self.ttl.is_none()
    }

    /// Rejects a state that the scope's validation does not accept.
    pub(super) fn allow<X>(&self, name: &Name, state: &S) -> Result<(), ScopeError<X>> {
        let rejected = |reason| ScopeError::Rejected { scope: name.to_string(), reason };
        self.check.as_ref().map_or(Ok(()), |check| check(state).map_err(rejected))
    }

    /// Adds the scope's TTL to a write.
    pub(super) fn with_ttl(&self, write: RecordWrite) -> RecordWrite {
        match self.ttl {
            Some(ttl) => write.expiring(When::In(ttl)),
            None => write,
        }
    }
}

impl<S> Clone for Options<S> {
    fn clone(&self) -> Self {
        Self {
            budget: self.budget,
            ttl: self.ttl,
            check: self.check.clone(),
            operation: self.operation.clone(),
            remembered: self.remembered,
            expected: self.expected,
            also: self.also.clone(),
        }
    }
}

impl<S> fmt::Debug for Options<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("budget", &self.budget).finish_non_exhaustive()
    }
}
