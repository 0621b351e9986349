//! A key that was won: the work is this caller's to do, and to complete.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Commit, Committed, Conflict, Fence, Guard, RawJson, RecordWrite, Slot, Timestamp,
};
use tokio_util::sync::CancellationToken;

use super::super::entry::Entry;
use super::super::held_claim::{Ended, HeldClaim, Holding};
use super::super::{ClaimError, ClaimKey, Handoff};
use super::OnFailure;
use crate::events::submit;

/// The right to do the work. Its lease is renewed until this goes away.
///
/// Complete it when the work is done. If it is dropped before, nobody knows how far the work has
/// come, so the key is not free at once but when the lease has run out.
#[derive(Debug)]
#[must_use = "a key that is won and not completed is free again when its lease has run out"]
pub struct ClaimGuard<T> {
    holding: Holding,
    on_failure: OnFailure,
    result: PhantomData<fn(T) -> T>,
}

impl<T> ClaimGuard<T> {
    pub(in super::super) fn new(holding: Holding, on_failure: OnFailure) -> Self {
        Self { holding, on_failure, result: PhantomData }
    }

    /// The name of the claim.
    pub fn key(&self) -> &ClaimKey {
        &self.hold().key
    }

    /// Since when it is held, by the store's clock.
    pub fn since(&self) -> Timestamp {
        self.hold().since
    }

    /// Grows with every claimant of this key: pass it on to whatever should refuse those who come
    /// late.
    pub fn fence(&self) -> Fence {
        self.hold().fence()
    }

    /// For a commit that must not land once somebody else has the claim.
    pub fn guard(&self) -> Guard {
        self.hold().guard()
    }

    /// Cancelled when the claim is lost: whatever is completed from then on is refused, so stop.
    pub fn lost(&self) -> &CancellationToken {
        self.holding.lost()
    }

    /// Lets go of the claim without giving it back: whoever has the fence [goes
    /// on](super::Idempotency::attach) with it. Nobody renews it from here on.
    pub fn detach(self) -> Handoff {
        Handoff::of(self.hold())
    }

    /// Gives the key back: whoever asks next does the work. Only if nothing was done yet, or all of
    /// it was undone.
    ///
    /// # Errors
    /// `Lost` if somebody else has it.
    pub async fn release(self) -> Result<(), ClaimError> {
        self.holding.release().await
    }

    /// The work has failed: gives the key back, or keeps the failure, as the policy says.
    ///
    /// # Errors
    /// `Lost` if somebody else has it.
    pub async fn fail(self, error: impl fmt::Display) -> Result<(), ClaimError> {
        match self.on_failure {
            OnFailure::Release => self.release().await,
            OnFailure::Remember => {
                let entry = self.hold().entry.failed(error.to_string(), self.since());
                let write = self.hold().conclude(&entry)?;
                match self.holding.end(Commit::new().write(write)).await? {
                    Ended::Now(_) => Ok(()),
                    Ended::Before(conflict) if self.before(&conflict)?.error == entry.error => {
                        Ok(())
                    }
                    Ended::Before(_) => Err(self.hold().over()),
                }
            }
        }
    }

    /// What came of it, if it was brought to its end before.
    fn before(&self, conflict: &Conflict) -> Result<Entry, ClaimError> {
        match self.hold().left(conflict) {
            Some(Slot::Live(record)) => Ok(Entry::read(record)?),
            _ => Err(self.hold().over()),
        }
    }

    fn hold(&self) -> &HeldClaim {
        &self.holding.holds()[0]
    }
}

impl<T: Serialize + DeserializeOwned> ClaimGuard<T> {
    /// Keeps the result, if nobody else has taken the claim over, and gives it back as everybody
    /// who asks later gets it. A claim that was completed before, here or [by its
    /// fence](super::Idempotency::attach), keeps the first result, which is given back.
    ///
    /// # Errors
    /// - `Failed` if a failure was kept before, and `Over` if the claim was given back.
    /// - `Lost` if somebody else has it: what this caller did must not count.
    /// - `Store` with advice `Unknown` if it could not be found out whether the result was kept:
    ///   claim the key again to see.
    pub async fn complete(&self, value: &T) -> Result<T, ClaimError> {
        let json = RawJson::new(value)?;
        let write = self.hold().conclude(&self.done(json.clone()))?;
        match self.holding.end(Commit::new().write(write)).await? {
            Ended::Before(conflict) => super::result(self.key(), &self.before(&conflict)?),
            Ended::Now(_) => json
                .to()
                .map_err(|source| ClaimError::Unreadable { key: self.key().clone(), source }),
        }
    }

    /// Keeps the result in the same commit as what it stands for: all of it lands, or none. The
    /// parts of the commit come before the result among those written.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); `Refused` if some part of the commit does not hold, and the
    /// claim still stands: decide again; and `Over` if it was completed or given back before:
    /// nothing of this commit has landed.
    pub async fn complete_with(&self, value: &T, commit: Commit) -> Result<Committed, ClaimError> {
        let commit = commit.write(self.completion(value)?);
        match self.holding.end(submit::repeatable(commit)).await? {
            Ended::Now(committed) => Ok(committed),
            Ended::Before(_) => Err(self.hold().over()),
        }
    }

    /// The part of a commit that keeps the result, for a commit that somebody else makes: a
    /// reaction's, say. It is refused if the claim was taken over by then. Keep this claim until
    /// that commit is made, so that its lease is renewed.
    ///
    /// # Errors
    /// `Store` if the value cannot be stored.
    pub fn completion(&self, value: &T) -> Result<RecordWrite, ClaimError> {
        Ok(self.hold().conclude(&self.done(RawJson::new(value)?))?)
    }

    fn done(&self, value: RawJson) -> Entry {
        self.hold().entry.done(value, self.since())
    }
}
