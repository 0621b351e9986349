//! Guard of a compound: claims that are renewed, completed and released in one commit each.

use serde::Serialize;
use tidelock_store::{Commit, CommitId, Committed, Conflict, Fence, Guard, RawJson, Slot};
use tokio_util::sync::CancellationToken;

use super::super::entry::{Entry, State};
use super::super::held_claim::{ClaimSet, Ended, HeldClaim};
use super::super::{ClaimError, ClaimKey, Grant};

/// Guard of several claims held together.
///
/// Their leases are renewed while it lives, and end at the same time. If the holder dies, or is
/// suspended for longer than the lease, all claims become available then, and reserved units return
/// to their quotas.
///
/// If it is dropped before it is completed and holds only locks and quotas, everything is released.
/// Otherwise the progress of the work is unknown, and everything becomes available when the lease
/// expires.
#[derive(Debug)]
#[must_use = "a compound is completed, released or expires as a whole"]
pub struct CompoundGuard {
    set: Box<ClaimSet>,
    grants: Vec<Grant>,
    ended: bool,
}

impl CompoundGuard {
    pub(super) fn new(set: ClaimSet) -> Self {
        let grants = set.pledges().iter().map(|pledge| pledge.grant.clone()).collect();
        Self { set: Box::new(set), grants, ended: false }
    }

    /// Returns the names and fences of the held claims.
    pub fn fences(&self) -> impl Iterator<Item = (&ClaimKey, Fence)> {
        self.set.held_claims().iter().map(|held| (&held.key, held.fence()))
    }

    /// Returns the units taken from quotas.
    ///
    /// They can be [refunded](super::super::Quota::refund) once the compound is completed.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter()
    }

    /// Returns the names of all held claims, for display.
    pub fn names(&self) -> String {
        let held_claims = self.set.held_claims().iter().map(|held| &held.key);
        super::names(held_claims.chain(self.set.pledges().iter().map(|pledge| &pledge.key)))
    }

    /// Returns a token that is cancelled when a claim is lost.
    ///
    /// Completing is refused from then on, so stop the work.
    pub fn lost(&self) -> &CancellationToken {
        self.set.lost()
    }

    /// Returns guards for a commit that must not succeed once a claim is lost.
    pub fn guards(&self) -> Vec<Guard> {
        self.set.guards()
    }

    /// Commits on the condition that all claims are still held.
    ///
    /// # Errors
    /// `Lost` if another claimant holds one of them; `Settled` if a reservation has expired;
    /// `Refused` if another part is rejected.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, ClaimError> {
        self.set.commit(commit).await
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
            return Err(self.ended_error());
        }
        let value = RawJson::new(value)?;
        let with = self.ensure_commit_id(with);
        let set = &self.set;
        let ended = set.end_all(|views| {
            let commit = set
                .held_claims()
                .iter()
                .try_fold(with.clone(), |commit, held| end(held, commit, &value))?;
            let mut both = set.pledges().iter().zip(views);
            Ok(both.try_fold(commit, |commit, (pledge, view)| pledge.confirm(commit, view))?)
        });
        if let Ended::Before(conflict) = ended.await? {
            self.set
                .held_claims()
                .iter()
                .try_for_each(|held| check_same_completion(held, &conflict, &value))?;
        }
        self.grants = self.grants.iter().map(Grant::confirmed).collect();
        self.ended = true;
        Ok(())
    }

    /// Releases everything: keys, singletons and locks become available, and reserved units go
    /// back.
    ///
    /// # Errors
    /// As [`complete`](Self::complete): then nothing is released.
    pub async fn release(mut self) -> Result<(), ClaimError> {
        if self.ended {
            return Err(self.ended_error());
        }
        let with = self.ensure_commit_id(Commit::new());
        let set = &self.set;
        let ended = set.end_all(|views| {
            let commit =
                set.held_claims().iter().fold(with.clone(), |commit, held| held.release(commit));
            let mut both = set.pledges().iter().zip(views);
            Ok(both.try_fold(commit, |commit, (pledge, view)| pledge.give_back(commit, view))?)
        });
        if let Ended::Before(conflict) = ended.await? {
            self.set.released_before(&conflict)?;
        }
        self.ended = true;
        Ok(())
    }

    /// Without a held claim there is no record that shows whether an earlier attempt was committed,
    /// so the commit gets an id.
    fn ensure_commit_id(&self, with: Commit) -> Commit {
        match self.set.held_claims().is_empty() && with.id.is_none() {
            true => with.with_id(CommitId::fresh()),
            false => with,
        }
    }

    fn ended_error(&self) -> ClaimError {
        match (self.set.held_claims().first(), self.set.pledges().first()) {
            (Some(held), _) => held.ended_error(),
            (None, Some(pledge)) => ClaimError::Settled { key: pledge.key.clone() },
            (None, None) => unreachable!("a compound holds something"),
        }
    }
}

/// Accepts an earlier completion with the same value: the first reply was lost.
fn check_same_completion(
    held: &HeldClaim,
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

fn end(held: &HeldClaim, commit: Commit, value: &RawJson) -> Result<Commit, ClaimError> {
    match held.is_lock() {
        true => Ok(held.release(commit)),
        false => {
            Ok(commit.write(held.complete_write(&held.entry.done(value.clone(), held.since))?))
        }
    }
}

impl Drop for CompoundGuard {
    fn drop(&mut self) {
        if !self.ended && self.set.held_claims().iter().all(HeldClaim::is_lock) {
            self.set.release_in_background();
        }
    }
}
