//! A scope as read: state, revision and expiry.

use std::sync::Arc;

use tidelock_store::{RawJson, Record, Revision, Slot, StoreError, Timestamp};

use super::error::ScopeError;
use super::name::Name;
use super::state::ScopeState;

/// A consistent read of a scope.
///
/// It distinguishes a scope that was never created, one that is gone, and one that is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<S> {
    /// The state, if the scope exists.
    pub state: Option<Arc<S>>,
    /// Number of writes, deletions included; `None` if the scope never existed.
    pub revision: Option<Revision>,
    /// When the scope expires unless it is changed before.
    pub expires_at: Option<Timestamp>,
}

impl<S: ScopeState> Document<S> {
    /// Whether the scope existed, and was deleted or has expired.
    pub fn is_gone(&self) -> bool {
        self.state.is_none() && self.revision.is_some()
    }

    /// Returns the state, or the default if there is none.
    pub fn state_or_default(&self) -> S {
        self.state.as_deref().cloned().unwrap_or_default()
    }

    pub(super) fn read(name: &Name, slot: &Slot) -> Result<Self, ScopeError> {
        let state = slot.live().map(|record| decode(name, &record.value)).transpose()?;
        let expires_at = slot.live().and_then(|record| record.expires_at);
        Ok(Self { state, revision: slot.revision(), expires_at })
    }
}

/// A state with the JSON it was decoded from, which may contain fields unknown to the type.
#[derive(Debug)]
pub(crate) struct Doc<S> {
    pub(super) state: Arc<S>,
    /// The stored JSON; `None` if the scope is only in memory.
    pub(super) text: Option<RawJson>,
}

impl<S> Clone for Doc<S> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), text: self.text.clone() }
    }
}

impl<S: ScopeState> Doc<S> {
    pub(super) fn of(name: &Name, record: &Record) -> Result<Self, ScopeError> {
        Ok(Self { state: decode(name, &record.value)?, text: Some(record.value.clone()) })
    }

    /// The initial document of a scope.
    pub(super) fn first() -> Self {
        Self { state: Arc::new(S::default()), text: None }
    }
}

fn decode<S: ScopeState>(name: &Name, text: &RawJson) -> Result<Arc<S>, ScopeError> {
    let unreadable = |error: StoreError| ScopeError::unreadable(name, error.context());
    Ok(Arc::new(text.to().map_err(unreadable)?))
}
