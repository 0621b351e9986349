//! A mutation of a stored scope as a part of another commit.

use std::sync::Arc;

use serde_json::Value;
use tidelock_store::{
    Change, ExpectedRevision, Guard, RawJson, RecordKey, RecordWrite, Result, Slot, StoreError,
    StoreExt,
};

use super::call::is_mutating;
use super::document::Doc;
use super::error::ScopeError;
use super::name::Name;
use super::scope::Scope;
use super::state::ScopeState;

impl<S: ScopeState> Scope<S> {
    /// The key of its record.
    ///
    /// # Errors
    /// `Invalid` if its name is none, or it is kept in memory.
    pub(crate) fn key(&self) -> Result<&RecordKey> {
        match self.stored() {
            Some((_, name)) => Ok(name.key()),
            None => Err(self.unstored()),
        }
    }

    /// The state as it is in the store now, or as `staged` leaves it.
    ///
    /// # Errors
    /// `Reentered` inside the scope's own mutator; `Gone` if it was deleted.
    pub(crate) async fn read(
        &self,
        staged: Option<RecordWrite>,
    ) -> Result<ScopeRead<'_, S>, ScopeError> {
        let (tidelock, name) = self.stored().ok_or_else(|| self.unstored())?;
        if is_mutating::<S>(tidelock, name) {
            return Err(ScopeError::reentered(name));
        }
        let (doc, expected) = match staged {
            Some(RecordWrite { expected, change: Change::Put { value, .. }, .. }) => {
                (Doc::parse(name, value)?, expected)
            }
            Some(RecordWrite { change: Change::Delete, .. }) => {
                return Err(ScopeError::gone(name, None));
            }
            _ => match tidelock.store().get_one(name.key()).await? {
                Slot::Live(record) => {
                    (Doc::of(name, &record)?, ExpectedRevision::Revision(record.revision))
                }
                Slot::Absent => (Doc::first(), ExpectedRevision::Absent),
                Slot::Deleted(revision) => return Err(ScopeError::gone(name, Some(revision))),
            },
        };
        Ok(ScopeRead { scope: self, name, doc, expected })
    }

    /// The write that creates the scope with a changed document.
    pub(crate) fn creation(
        &self,
        expected: ExpectedRevision,
        change: impl FnOnce(&mut Value) -> Result<(), String>,
    ) -> Result<RecordWrite, ScopeError> {
        let (_, name) = self.stored().ok_or_else(|| self.unstored())?;
        let read = ScopeRead { scope: self, name, doc: Doc::first(), expected };
        let mut document = read.document()?;
        change(&mut document).map_err(|reason| read.unfit(reason))?;
        let state = S::deserialize(document).map_err(|error| read.unfit(error.to_string()))?;
        self.options().allow(name, &state)?;
        let text = RawJson::new(&state).map_err(|e| e.about(format_args!("scope {name}")))?;
        Ok(self.options().with_ttl(RecordWrite::put(name.key(), expected, text)))
    }

    fn unstored(&self) -> StoreError {
        let why = "it is kept in memory, so no commit can hold it; use a scope of the store";
        self.invalid_name().unwrap_or_else(|| StoreError::invalid(format!("{self:?}: {why}")))
    }
}

/// A state that was read, and may be changed by a commit.
pub(crate) struct ScopeRead<'a, S: ScopeState> {
    scope: &'a Scope<S>,
    name: &'a Name,
    doc: Doc<S>,
    expected: ExpectedRevision,
}

impl<S: ScopeState> ScopeRead<'_, S> {
    /// That the state is still what was read.
    pub(crate) fn guard(&self) -> Guard {
        Guard::Record { key: self.name.key().clone(), expected: self.expected }
    }

    /// Refuses another state than the caller expects.
    pub(crate) fn check(&self, expected: ExpectedRevision) -> Result<(), ScopeError> {
        let scope = || self.name.to_string();
        match (expected, self.expected) {
            (ExpectedRevision::Any, _) => Ok(()),
            (ExpectedRevision::Absent, ExpectedRevision::Revision(revision)) => {
                Err(ScopeError::Taken { scope: scope(), revision })
            }
            (ExpectedRevision::Absent, _) => Ok(()),
            (_, ExpectedRevision::Absent) => Err(ScopeError::gone(self.name, None)),
            (ExpectedRevision::Revision(expected), ExpectedRevision::Revision(found))
                if expected != found =>
            {
                Err(ScopeError::Moved { scope: scope(), expected, found })
            }
            _ => Ok(()),
        }
    }

    /// The write that deletes the scope; none if there is none.
    pub(crate) fn deletion(&self) -> Option<RecordWrite> {
        let exists = !matches!(self.expected, ExpectedRevision::Absent);
        exists.then(|| RecordWrite::delete(self.name.key(), self.expected))
    }

    /// Whether there is a scope, in the store or staged.
    pub(crate) fn exists(&self) -> bool {
        !matches!(self.expected, ExpectedRevision::Absent) || self.doc.text.is_some()
    }

    /// The state as a document.
    pub(crate) fn document(&self) -> Result<Value, ScopeError> {
        let document = RawJson::new(&*self.doc.state).and_then(|text| text.to());
        document.map_err(|error| ScopeError::unreadable(self.name, error.context()))
    }

    /// Says why a change does not fit the state.
    pub(crate) fn unfit(&self, reason: impl Into<String>) -> ScopeError {
        ScopeError::Unfit { scope: self.name.to_string(), reason: reason.into() }
    }

    /// Applies a mutation, and returns the write that makes it so; none for an unchanged state.
    pub(crate) fn change<R, X>(
        &self,
        mutate: impl FnOnce(&mut S) -> Result<R, X>,
    ) -> Result<(Option<RecordWrite>, R), ScopeError<X>> {
        let mut state = S::clone(&self.doc.state);
        let answer = mutate(&mut state).map_err(ScopeError::Refused)?;
        if *self.doc.state == state {
            return Ok((None, answer));
        }
        let (name, options) = (self.name, self.scope.options());
        options.allow(name, &state)?;
        let text = RawJson::new(&state).map_err(|e| e.about(format_args!("scope {name}")))?;
        let write = RecordWrite::put(name.key(), self.expected, text);
        Ok((Some(options.with_ttl(write)), answer))
    }
}

impl<S: ScopeState> Doc<S> {
    /// The document that a staged write leaves.
    fn parse(name: &Name, text: RawJson) -> Result<Self, ScopeError> {
        let unreadable = |error: StoreError| ScopeError::unreadable(name, error.context());
        Ok(Self { state: Arc::new(text.to().map_err(unreadable)?), text: Some(text) })
    }
}
