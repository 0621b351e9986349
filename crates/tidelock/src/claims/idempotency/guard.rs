//! The work of a key or singleton: completed, or failed.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, Committed, Conflict, RawJson, RecordWrite, Slot};

use super::super::claim_set::Ended;
use super::super::entry::Entry;
use super::super::{ClaimError, ClaimGuard};
use super::OnFailure;
use crate::events::submit;

impl<T> ClaimGuard<T> {
    /// Reports failed work: releases the key or stores the failure, according to [`OnFailure`].
    ///
    /// # Errors
    /// `Lost` if another claimant holds it.
    pub async fn fail(self, error: impl fmt::Display) -> Result<(), ClaimError> {
        match self.kind.on_failure {
            OnFailure::Release => self.release().await,
            OnFailure::Remember => {
                let entry = self.hold().entry.failed(error.to_string(), self.since());
                let write = self.hold().complete_write(&entry)?;
                match self.set.end(Commit::new().write(write)).await? {
                    Ended::Now(_) => Ok(()),
                    Ended::Before(conflict) if self.before(&conflict)?.error == entry.error => {
                        Ok(())
                    }
                    Ended::Before(_) => Err(self.hold().ended_error()),
                }
            }
        }
    }

    /// Returns the outcome of an earlier end.
    fn before(&self, conflict: &Conflict) -> Result<Entry, ClaimError> {
        match self.hold().own_result(conflict) {
            Some(Slot::Live(record)) => Ok(Entry::read(record)?),
            _ => Err(self.hold().ended_error()),
        }
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
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let payment = tidelock.idempotency("pay:42");
    /// let IdempotencyClaim::Won(claim) = payment.claim().await? else { panic!("it is new") };
    /// claim.complete(&"receipt 1".to_owned()).await?;
    ///
    /// let IdempotencyClaim::Done(receipt) = payment.claim::<String>().await? else { panic!("done") };
    /// assert_eq!(receipt, "receipt 1");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn complete(&self, value: &T) -> Result<T, ClaimError> {
        let json = RawJson::new(value)?;
        let write = self.hold().complete_write(&self.done(json.clone()))?;
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
            Ended::Before(_) => Err(self.hold().ended_error()),
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
        Ok(self.hold().complete_write(&self.done(RawJson::new(value)?))?)
    }

    fn done(&self, value: RawJson) -> Entry {
        self.hold().entry.done(value, self.since())
    }
}
