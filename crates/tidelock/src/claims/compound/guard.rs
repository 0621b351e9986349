//! Guard of a compound: claims that are renewed, completed and released in one commit each.

use serde::Serialize;
use tidelock_store::{Commit, CommitId, Committed, Conflict, Fence, RawJson, Slot};
use tokio_util::sync::CancellationToken;

use super::super::entry::{Entry, State};
use super::super::held_claim::{Ended, HeldClaim, Holding};
use super::super::{ClaimError, ClaimKey, Grant};

/// Guard of several claims held together. Their leases are renewed while it lives, and end at the
/// same time. If the holder dies, or is suspended for longer than the lease, all claims become
/// available then, and reserved units return to their quotas.
///
/// If it is dropped before it is completed and holds only locks and quotas, everything is released.
/// Otherwise the progress of the work is unknown, and everything becomes available when the lease
/// expires.
#[derive(Debug)]
#[must_use = "what is held together is given back, or runs out, together"]
pub struct CompoundGuard {
    holding: Box<Holding>,
    grants: Vec<Grant>,
    over: bool,
}

impl CompoundGuard {
    pub(super) fn new(holding: Holding) -> Self {
        let grants = holding.pledges().iter().map(|pledge| pledge.grant.clone()).collect();
        Self { holding: Box::new(holding), grants, over: false }
    }

    /// Returns the names and fences of the held claims.
    pub fn fences(&self) -> impl Iterator<Item = (&ClaimKey, Fence)> {
        self.holding.holds().iter().map(|hold| (&hold.key, hold.fence()))
    }

    /// Returns the units taken from quotas. They can be [refunded](super::super::Quota::refund)
    /// once the compound is completed.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter()
    }

    /// Returns the names of all held claims, for display.
    pub fn names(&self) -> String {
        let holds = self.holding.holds().iter().map(|hold| &hold.key);
        super::names(holds.chain(self.holding.pledges().iter().map(|pledge| &pledge.key)))
    }

    /// Returns a token that is cancelled when a claim is lost. Completing is refused from then on,
    /// so stop the work.
    pub fn lost(&self) -> &CancellationToken {
        self.holding.lost()
    }

    /// Commits on the condition that all claims are still held.
    ///
    /// # Errors
    /// `Lost` if another claimant holds one of them; `Settled` if a reservation has expired;
    /// `Refused` if another part is rejected.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, ClaimError> {
        self.holding.commit(commit).await
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
        if self.over {
            return Err(self.ended_before());
        }
        let value = RawJson::new(value)?;
        let with = self.ensure_retry_id(with);
        let holding = &self.holding;
        let ended = holding.end_all(|views| {
            let commit = holding
                .holds()
                .iter()
                .try_fold(with.clone(), |commit, hold| end(hold, commit, &value))?;
            let mut both = holding.pledges().iter().zip(views);
            Ok(both.try_fold(commit, |commit, (pledge, view)| pledge.confirm(commit, view))?)
        });
        if let Ended::Before(conflict) = ended.await? {
            self.holding
                .holds()
                .iter()
                .try_for_each(|hold| completed_so(hold, &conflict, &value))?;
        }
        self.grants = self.grants.iter().map(Grant::confirmed).collect();
        self.over = true;
        Ok(())
    }

    /// Releases everything: keys, singletons and locks become available, and reserved units go
    /// back.
    ///
    /// # Errors
    /// As [`complete`](Self::complete): then nothing is released.
    pub async fn release(mut self) -> Result<(), ClaimError> {
        if self.over {
            return Err(self.ended_before());
        }
        let with = self.ensure_retry_id(Commit::new());
        let holding = &self.holding;
        let ended = holding.end_all(|views| {
            let commit =
                holding.holds().iter().fold(with.clone(), |commit, hold| hold.release(commit));
            let mut both = holding.pledges().iter().zip(views);
            Ok(both.try_fold(commit, |commit, (pledge, view)| pledge.give_back(commit, view))?)
        });
        if let Ended::Before(conflict) = ended.await? {
            self.holding.released_before(&conflict)?;
        }
        self.over = true;
        Ok(())
    }

    /// Without a held claim there is no record that shows whether an earlier attempt was committed,
    /// so the commit gets an id.
    fn ensure_retry_id(&self, with: Commit) -> Commit {
        match self.holding.holds().is_empty() && with.id.is_none() {
            true => with.with_id(CommitId::fresh()),
            false => with,
        }
    }

    fn ended_before(&self) -> ClaimError {
        match (self.holding.holds().first(), self.holding.pledges().first()) {
            (Some(hold), _) => hold.over(),
            (None, Some(pledge)) => ClaimError::Settled { key: pledge.key.clone() },
            (None, None) => unreachable!("a compound holds something"),
        }
    }
}

/// Accepts an earlier completion with the same value: the first reply was lost.
fn completed_so(hold: &HeldClaim, conflict: &Conflict, value: &RawJson) -> Result<(), ClaimError> {
    let Some(left) = hold.left(conflict) else { return Ok(()) };
    let is_so = match left {
        Slot::Live(record) => {
            let entry = Entry::read(record)?;
            entry.state == State::Done && entry.value.is_some_and(|kept| kept.same_value(value))
        }
        _ => hold.is_lock(),
    };
    if is_so { Ok(()) } else { Err(hold.over()) }
}

fn end(hold: &HeldClaim, commit: Commit, value: &RawJson) -> Result<Commit, ClaimError> {
    match hold.is_lock() {
        true => Ok(hold.release(commit)),
        false => Ok(commit.write(hold.conclude(&hold.entry.done(value.clone(), hold.since))?)),
    }
}

impl Drop for CompoundGuard {
    fn drop(&mut self) {
        if !self.over && self.holding.holds().iter().all(HeldClaim::is_lock) {
            self.holding.release_later();
        }
    }
}
