//! Several rights that are held together: renewed, completed and given back in one commit each.

use serde::Serialize;
use tidelock_store::{Commit, CommitId, Committed, Conflict, Fence, RawJson, Slot};
use tokio_util::sync::CancellationToken;

use super::super::entry::{Entry, State};
use super::super::held_claim::{Ended, HeldClaim, Holding};
use super::super::{ClaimError, ClaimKey, Grant};

/// Several rights, held together. Their leases are renewed until this goes away, and end at one
/// moment: if the holder dies, or is stopped for longer than a lease lasts, all of it is free then,
/// and what was drawn of quotas has gone back.
///
/// If it is dropped before it is completed, everything is given back if there are only locks and
/// quotas; otherwise nobody knows how far the work has come, and everything is free when the lease
/// has run out.
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

    /// The names and fences of what is held.
    pub fn fences(&self) -> impl Iterator<Item = (&ClaimKey, Fence)> {
        self.holding.holds().iter().map(|hold| (&hold.key, hold.fence()))
    }

    /// What was drawn of quotas. It can be [refunded](super::super::Quota::refund) once it is
    /// completed.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter()
    }

    /// The names of all that is held, for people.
    pub fn names(&self) -> String {
        let holds = self.holding.holds().iter().map(|hold| &hold.key);
        super::names(holds.chain(self.holding.pledges().iter().map(|pledge| &pledge.key)))
    }

    /// Cancelled when one of these is lost: whatever is completed from then on is refused, so stop.
    pub fn lost(&self) -> &CancellationToken {
        self.holding.lost()
    }

    /// Commits, provided that all of these are still held.
    ///
    /// # Errors
    /// `Lost` if somebody else has one of them; `Settled` if what was drawn of a quota has gone
    /// back; `Refused` if some other part does not hold.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, ClaimError> {
        self.holding.commit(commit).await
    }

    /// Completes keys and singletons with this result, gives locks back and takes for good what was
    /// drawn of quotas, in one commit.
    ///
    /// # Errors
    /// - `Lost` if somebody else has one of them, and `Settled` if the lease ran out and what was
    ///   drawn of a quota has gone back: then nothing is completed and nothing given back.
    /// - `Over` if it was completed before: the first result counts.
    pub async fn complete(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), ClaimError> {
        self.complete_with(value, Commit::new()).await
    }

    /// The same, in one commit with what the result stands for.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); and `Refused` if some part of the commit does not hold.
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
        let with = self.repeatable(with);
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

    /// Undoes all of it: keys, singletons and locks are free again, and what was drawn of quotas
    /// goes back.
    ///
    /// # Errors
    /// As [`complete`](Self::complete): then nothing is given back.
    pub async fn release(mut self) -> Result<(), ClaimError> {
        if self.over {
            return Err(self.ended_before());
        }
        let with = self.repeatable(Commit::new());
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

    /// With no claim held there is nothing to tell by whether an earlier try has landed.
    fn repeatable(&self, with: Commit) -> Commit {
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

/// Fine, if this is how it ended: the first reply was lost.
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
