//! Guard of an acquired idempotency key or singleton.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Commit, Committed, Conflict, Fence, Guard, RawJson, RecordWrite, Slot, Timestamp,
};
use tokio_util::sync::CancellationToken;

use super::super::entry::Entry;
use super::super::held_claim::{ClaimSet, Ended, HeldClaim};
use super::super::{ClaimError, ClaimKey, Handoff};
use super::OnFailure;
use crate::events::submit;

/// Guard of an acquired key: its holder does the work and completes it.
///
/// The lease is renewed while the guard lives.
///
/// If it is dropped before completion, the progress of the work is unknown, so the key is not
/// released at once but becomes available when the lease expires.
#[derive(Debug)]
#[must_use = "a key that is won and not completed is free again when its lease has run out"]
pub struct ClaimGuard<T> {
    set: ClaimSet,
    on_failure: OnFailure,
    result: PhantomData<fn(T) -> T>,
}

impl<T> ClaimGuard<T> {
    pub(in super::super) fn new(set: ClaimSet, on_failure: OnFailure) -> Self {
        Self { set, on_failure, result: PhantomData }
    }

    /// Returns the claim's name.
    pub fn key(&self) -> &ClaimKey {
        &self.held().key
    }

    /// Returns when it was acquired, by the store's clock.
    pub fn since(&self) -> Timestamp {
        self.held().since
    }

    /// Returns the fence, which grows with every claimant of this key.
    ///
    /// Pass it to external systems that should reject outdated claimants.
    pub fn fence(&self) -> Fence {
        self.held().fence()
    }

    /// Returns a guard for a commit that must not succeed once another claimant holds the key.
    pub fn guard(&self) -> Guard {
        self.held().guard()
    }

    /// Returns a token that is cancelled when the claim is lost.
    ///
    /// Completing is refused from then on, so stop the work.
    pub fn lost(&self) -> &CancellationToken {
        self.set.lost()
    }

    /// Detaches the claim without releasing it: the holder of the fence
    /// [continues](super::Idempotency::attach) it.
    ///
    /// The lease is not renewed any more.
    pub fn detach(self) -> Handoff {
        Handoff::of(self.held())
    }

    /// Releases the key, so that the next claimant does the work.
    ///
    /// Use it only if nothing was done yet, or all of it was undone.
    ///
    /// # Errors
    /// `Lost` if another claimant holds it.
    pub async fn release(self) -> Result<(), ClaimError> {
        self.set.release().await
    }

    /// Reports failed work: releases the key or stores the failure, according to [`OnFailure`].
    ///
    /// # Errors
    /// `Lost` if another claimant holds it.
    pub async fn fail(self, error: impl fmt::Display) -> Result<(), ClaimError> {
        match self.on_failure {
            OnFailure::Release => self.release().await,
            OnFailure::Remember => {
                let entry = self.held().entry.failed(error.to_string(), self.since());
                let write = self.held().complete_write(&entry)?;
                match self.set.end(Commit::new().write(write)).await? {
                    Ended::Now(_) => Ok(()),
                    Ended::Before(conflict) if self.before(&conflict)?.error == entry.error => {
                        Ok(())
                    }
                    Ended::Before(_) => Err(self.held().ended_error()),
                }
            }
        }
    }

    /// Returns the outcome of an earlier end.
    fn before(&self, conflict: &Conflict) -> Result<Entry, ClaimError> {
        match self.held().own_result(conflict) {
            Some(Slot::Live(record)) => Ok(Entry::read(record)?),
            _ => Err(self.held().ended_error()),
        }
    }

    fn held(&self) -> &HeldClaim {
        &self.set.held_claims()[0]
    }
}

impl<T: Serialize + DeserializeOwned> ClaimGuard<T> {
    /// Stores the result and returns it as later claimants will read it.
    ///
    /// A claim that was completed before, here or [by its fence](super::Idempotency::attach), keeps
    /// the first result, which is returned.
    ///
    /// # Errors
    /// - `Failed` if a failure was stored before, and `Over` if the claim was released.
    /// - `Lost` if another claimant holds it: this caller's work must not take effect.
    /// - `Store` with advice `Unknown` if it is unknown whether the result was stored: claim the
    ///   key again to find out.
    pub async fn complete(&self, value: &T) -> Result<T, ClaimError> {
        let json = RawJson::new(value)?;
        let write = self.held().complete_write(&self.done(json.clone()))?;
        match self.set.end(Commit::new().write(write)).await? {
            Ended::Before(conflict) => super::result(self.key(), &self.before(&conflict)?),
            Ended::Now(_) => json
                .to()
                .map_err(|source| ClaimError::Unreadable { key: self.key().clone(), source }),
        }
    }

    /// Stores the result in the same commit as the work's effects, all or none.
    ///
    /// The commit's own parts come before the result among the writes.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); `Refused` if a part of the commit is rejected and the claim
    /// is still held: decide again; and `Over` if it was completed or released before: nothing of
    /// this commit was applied.
    pub async fn complete_with(&self, value: &T, commit: Commit) -> Result<Committed, ClaimError> {
        let commit = commit.write(self.completion(value)?);
        match self.set.end(submit::ensure_retry_id(commit)).await? {
            Ended::Now(committed) => Ok(committed),
            Ended::Before(_) => Err(self.held().ended_error()),
        }
    }

    /// Returns the part of a commit that stores the result, for a commit made elsewhere, such as a
    /// reaction's.
    ///
    /// It is rejected if the claim was taken over by then. Keep this guard until that commit is
    /// made, so that the lease is renewed.
    ///
    /// # Errors
    /// `Store` if the value cannot be stored.
    pub fn completion(&self, value: &T) -> Result<RecordWrite, ClaimError> {
        Ok(self.held().complete_write(&self.done(RawJson::new(value)?))?)
    }

    fn done(&self, value: RawJson) -> Entry {
        self.held().entry.done(value, self.since())
    }
}
