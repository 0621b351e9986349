//! Work that is gone on with: renewed, completed or given up by whoever has its fence.

use std::time::Duration;

use serde::Serialize;
use tidelock_store::{Commit, CommitOutcome, Fence, Guard, RawJson, Timestamp};

use super::super::entry::{Entry, State};
use super::super::handoff::{AttachedClaim, Found};
use super::super::{ClaimError, ClaimKey};

/// The right to do the work, gone on with by its fence. Dropping it changes nothing.
#[derive(Debug, Clone)]
#[must_use = "nothing is done before it is renewed, completed or given back"]
pub struct AttachedKey {
    right: AttachedClaim,
}

impl AttachedKey {
    pub(super) fn new(right: AttachedClaim) -> Self {
        Self { right }
    }

    /// The name of the claim.
    pub fn key(&self) -> &ClaimKey {
        self.right.key()
    }

    /// The fence that it is held under.
    pub fn fence(&self) -> Fence {
        self.right.fence()
    }

    /// For a commit that must not land once somebody else has it.
    ///
    /// # Errors
    /// `Store` if the name cannot be one.
    pub fn guard(&self) -> Result<Guard, ClaimError> {
        self.right.guard()
    }

    /// See [`AttachedClaim::renew`].
    ///
    /// # Errors
    /// As there.
    pub async fn renew(&self, lease: Duration) -> Result<Timestamp, ClaimError> {
        self.right.renew(lease).await
    }

    /// Gives the key back: whoever asks next does the work. See [`AttachedClaim::release`].
    ///
    /// # Errors
    /// As there.
    pub async fn release(&self) -> Result<(), ClaimError> {
        self.right.release().await
    }

    /// Keeps the result, for as long as was said when the key was claimed. Asked for again with the
    /// same result, it says the same.
    ///
    /// # Errors
    /// `Lost` if somebody else has it: what this caller did must not count. `Over` if it was given
    /// back, or completed with something else.
    pub async fn complete(&self, value: &(impl Serialize + ?Sized)) -> Result<(), ClaimError> {
        let value = RawJson::new(value)?;
        self.end(|entry, since| entry.done(value.clone(), since)).await
    }

    /// Keeps the failure like a result: whoever asks next gets it as [`ClaimError::Failed`].
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn fail(&self, error: &str) -> Result<(), ClaimError> {
        self.end(|entry, since| entry.failed(error.to_owned(), since)).await
    }

    async fn end(&self, ended: impl Fn(&Entry, Timestamp) -> Entry) -> Result<(), ClaimError> {
        let hold = match self.right.look().await? {
            Found::Held(hold) => hold,
            found => return self.ended_so(&found, &ended),
        };
        let write = hold.conclude(&ended(&hold.entry, hold.since))?;
        match self.right.claims.send(&Commit::new().write(write)).await? {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict(_) => self.ended_so(&self.right.look().await?, &ended),
        }
    }

    /// Fine, if this is how it ended: the first reply was lost.
    fn ended_so(
        &self,
        found: &Found,
        ended: &impl Fn(&Entry, Timestamp) -> Entry,
    ) -> Result<(), ClaimError> {
        if let Found::Over(there) = found
            && let Some(at) = there.at
            && is_same(there, &ended(there, at))
        {
            return Ok(());
        }
        Err(self.right.not_held(found))
    }
}

/// Whether both say that the same came of it.
fn is_same(there: &Entry, asked: &Entry) -> bool {
    match (there.state, asked.state) {
        (State::Done, State::Done) => {
            matches!((&there.value, &asked.value), (Some(one), Some(other)) if one.same_value(other))
        }
        (State::Failed, State::Failed) => there.error == asked.error,
        _ => false,
    }
}
