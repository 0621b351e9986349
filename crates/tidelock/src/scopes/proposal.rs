//! A mutation of a stored scope as a part of another commit.

use std::sync::Arc;

use tidelock_store::{
    Change, Commit, ExpectedRevision, RawJson, RecordKey, RecordWrite, Result, Slot, StoreError,
    StoreExt,
};

use super::document::Doc;
use super::error::ScopeError;
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

    /// Applies a mutation to the state as it is in the store now, or as `staged` leaves it, and
    /// returns the parts of a commit that make it so. An unchanged state is guarded, not written:
    /// the caller has seen it, so it must not change until the commit.
    pub(crate) async fn propose<R, X>(
        &self,
        staged: Option<RecordWrite>,
        mutate: impl FnOnce(&mut S) -> Result<R, X>,
    ) -> Result<(Commit, R), ScopeError<X>> {
        let (tidelock, name) = self.stored().ok_or_else(|| self.unstored())?;
        let is_staged = staged.is_some();
        let (doc, expected) = match staged {
            Some(RecordWrite { expected, change: Change::Put { value, .. }, .. }) => {
                (Doc::parse(name, value).map_err(ScopeError::widen)?, expected)
            }
            _ => match tidelock.store().get_one(name.key()).await? {
                Slot::Live(record) => (
                    Doc::of(name, &record).map_err(ScopeError::widen)?,
                    ExpectedRevision::Revision(record.revision),
                ),
                Slot::Absent => (Doc::first(), ExpectedRevision::Absent),
                Slot::Deleted(revision) => return Err(ScopeError::gone(name, Some(revision))),
            },
        };
        let mut state = S::clone(&doc.state);
        let answer = mutate(&mut state).map_err(ScopeError::Refused)?;
        if *doc.state == state {
            let guarded = if is_staged {
                Commit::new()
            } else {
                Commit::new().guard_record(name.key(), expected)
            };
            return Ok((guarded, answer));
        }
        self.options().allow(name, &state)?;
        let text = RawJson::new(&state).map_err(|e| e.about(format_args!("scope {name}")))?;
        let write = self.options().with_ttl(RecordWrite::put(name.key(), expected, text));
        Ok((Commit::new().write(write), answer))
    }

    fn unstored(&self) -> StoreError {
        let why = "it is kept in memory, so no commit can hold it; use a scope of the store";
        self.invalid_name().unwrap_or_else(|| StoreError::invalid(format!("{self:?}: {why}")))
    }
}

impl<S: ScopeState> Doc<S> {
    /// The document that a staged write leaves.
    fn parse(name: &super::name::Name, text: RawJson) -> Result<Self, ScopeError> {
        let unreadable = |error: StoreError| ScopeError::unreadable(name, error.context());
        Ok(Self { state: Arc::new(text.to().map_err(unreadable)?), text: Some(text) })
    }
}
