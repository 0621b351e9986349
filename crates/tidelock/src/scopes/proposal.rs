//! A mutation of a stored scope as a part of another commit.

use std::sync::Arc;

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
