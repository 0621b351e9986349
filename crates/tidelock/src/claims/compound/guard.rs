//! Several claims held together: completed in one commit.

use serde::Serialize;
use tidelock_store::{Commit, Conflict, Fence, RawJson, Slot};

use super::super::claim_set::{Ended, Hold};
use super::super::entry::{Entry, State};
use super::super::{ClaimError, ClaimKey, CompoundGuard, Grant};

impl CompoundGuard {
    /// The guard in its caller's hands.
    pub(super) fn handed_over(mut self) -> Self {
        self.kind.is_handed_over = true;
        self
    }

    /// Returns the names and fences of the held claims.
    pub fn fences(&self) -> impl Iterator<Item = (&ClaimKey, Fence)> {
        self.set.holds().iter().map(|held| (&held.key, held.fence()))
    }

    /// Returns the units taken from quotas.
    ///
    /// They can be [refunded](super::super::Quota::refund) once the compound is completed.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.kind.grants.iter()
    }

    /// Returns the names of all held claims, for display.
    pub fn names(&self) -> String {
        let holds = self.set.holds().iter().map(|held| &held.key);
        super::names(holds.chain(self.set.pledges().iter().map(|pledge| &pledge.key)))
    }

    /// Completes keys and singletons with this result, releases locks and debits quotas, in one
    /// commit.
    ///
    /// # Errors
    /// - `Lost` if another claimant holds one of them, and `Settled` if the lease expired and
    ///   reserved units went back: then nothing is completed and nothing released.
    /// - `Over` if it was completed before: the first result counts.
    pub async fn complete(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), ClaimError> {
        self.complete_with(value, Commit::new()).await
    }

    /// Completes the compound in one commit with other parts.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); and `Refused` if a part of the commit is rejected.
    /// Everything is still held then.
    pub async fn complete_with(
        &mut self,
        value: &(impl Serialize + ?Sized),
        with: Commit,
    ) -> Result<(), ClaimError> {
        if self.ended {
            return Err(self.set.ended_error());
        }
        let value = RawJson::new(value)?;
        let with = self.set.ensure_commit_id(with);
        let set = &self.set;
        let ended = set.end_all(|views| {
            let commit = set
                .holds()
                .iter()
                .try_fold(with.clone(), |commit, held| end(held, commit, &value))?;
            let mut both = set.pledges().iter().zip(views);
            Ok(both.try_fold(commit, |commit, (pledge, view)| pledge.confirm(commit, view))?)
        });
        if let Ended::Before(conflict) = ended.await? {
            self.set
                .holds()
                .iter()
                .try_for_each(|held| check_same_completion(held, &conflict, &value))?;
        }
        self.kind.grants = set.pledges().iter().map(|pledge| pledge.confirmed.clone()).collect();
        self.ended = true;
        Ok(())
    }
}

/// Accepts an earlier completion with the same value: the first reply was lost.
fn check_same_completion(
    held: &Hold,
    conflict: &Conflict,
    value: &RawJson,
) -> Result<(), ClaimError> {
    let Some(left) = held.own_result(conflict) else { return Ok(()) };
    let is_so = match left {
        Slot::Live(record) => {
            let entry = Entry::read(record)?;
            entry.state == State::Done && entry.value.is_some_and(|kept| kept.same_value(value))
        }
        _ => held.is_lock(),
    };
    if is_so { Ok(()) } else { Err(held.ended_error()) }
}

fn end(held: &Hold, commit: Commit, value: &RawJson) -> Result<Commit, ClaimError> {
    match held.is_lock() {
        true => Ok(held.release(commit)),
        false => {
            Ok(commit.write(held.complete_write(&held.entry.done(value.clone(), held.since))?))
        }
    }
}
