//! A scope as it was read.

use std::sync::Arc;

use tidelock_store::{RawJson, Record, Revision, Slot, StoreError, Timestamp};

use super::error::ScopeError;
use super::name::Name;
use super::state::ScopeState;

/// A scope as it was at one moment. One that was never created, one that is gone and one that is
/// empty are three things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<S> {
    /// Its state, if it is there.
    pub state: Option<Arc<S>>,
    /// How often it was written, deletions included; none if it never was.
    pub revision: Option<Revision>,
    /// When it goes away unless it is changed before.
    pub expires_at: Option<Timestamp>,
}

impl<S: ScopeState> Document<S> {
    /// Whether it was there once, and was deleted or has expired.
    pub fn is_gone(&self) -> bool {
        self.state.is_none() && self.revision.is_some()
    }

    /// The state; the default if there is none.
    pub fn state_or_default(&self) -> S {
        self.state.as_deref().cloned().unwrap_or_default()
    }

    pub(super) fn read(name: &Name, slot: &Slot) -> Result<Self, ScopeError> {
        let state = slot.live().map(|record| decode(name, &record.value)).transpose()?;
        let expires_at = slot.live().and_then(|record| record.expires_at);
        Ok(Self { state, revision: slot.revision(), expires_at })
    }
}

/// A state together with the document that it was read from: the document may say more than the
/// type knows.
#[derive(Debug)]
pub(crate) struct Doc<S> {
    pub(super) state: Arc<S>,
    /// As it is in the store; none if it is nowhere but in memory.
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

    /// What a scope begins with.
    pub(super) fn first() -> Self {
        Self { state: Arc::new(S::default()), text: None }
    }
}

fn decode<S: ScopeState>(name: &Name, text: &RawJson) -> Result<Arc<S>, ScopeError> {
    let unreadable = |error: StoreError| ScopeError::unreadable(name, error.context());
    Ok(Arc::new(text.to().map_err(unreadable)?))
}
