//! Claims that are held: their fences, and the lease that is renewed for as long as somebody works.
//!
//! Claims that were won together are renewed, and given back, together: in one commit, or not at all. The fence of a claim is the
//! revision of its record, which a renewal does not touch; so whatever carries it is refused from the moment that
//! somebody else takes the claim over, and not before.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedRevision, Fence, Guard, RecordKey, Result, Revision,
    Slot, Store, Timestamp, When, Write,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::bid::found;
use super::entry::{Entry, LeaseNote};
use super::stake::Stake;
use super::{ClaimError, ClaimKey, Claims, keys};
use crate::events::sender;

/// One claim that is held.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) key: ClaimKey,
    record: RecordKey,
    lease_record: RecordKey,
    pub(super) entry: Entry,
    revision: Revision,
    pub(super) lease: Duration,
    ttl: Option<Duration>,
    pub(super) since: Timestamp,
}

impl Hold {
    /// What was won with this stake, under this revision.
    pub(super) fn new(stake: &Stake, revision: Revision, since: Timestamp) -> Self {
        Self {
            key: stake.key.clone(),
            record: stake.record.clone(),
            lease_record: stake.lease_record.clone(),
            entry: stake.entry.clone(),
            revision,
            lease: stake.lease.unwrap_or_default(),
            ttl: stake.ttl,
            since,
        }
    }

    /// What is gone on with under this revision. How long its result is kept was said when it was claimed.
    pub(super) fn resumed(
        key: &ClaimKey,
        entry: Entry,
        revision: Revision,
        since: Timestamp,
    ) -> Result<Self> {
        let (record, lease_record) = (keys::record(key)?, keys::lease(key)?);
        let (key, ttl, lease) = (key.clone(), entry.ttl(), Duration::ZERO);
        Ok(Self { key, record, lease_record, entry, revision, lease, ttl, since })
    }

    /// The same, for so long.
    pub(super) fn lasting(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub(super) fn fence(&self) -> Fence {
        Fence::new(self.revision.get()).expect("a revision is in the range of a fence")
    }

    /// The claim is still this one's.
    pub(super) fn guard(&self) -> Guard {
        Guard::Record { key: self.record.clone(), expected: self.mine() }
    }

    /// Whether this is a lock, which ends by being given back.
    pub(super) fn is_lock(&self) -> bool {
        self.key.kind() == keys::LOCK
    }

    /// What came of it, instead of the claim. The lease is left to run out; nobody looks at it any more.
    pub(super) fn conclude(&self, entry: &Entry) -> Result<Write> {
        let write = Write::put(&self.record, self.mine(), entry.json()?);
        Ok(match self.ttl {
            Some(ttl) => write.expiring(When::In(ttl)),
            None => write,
        })
    }

    /// Gives it back.
    pub(super) fn release(&self, commit: Commit) -> Commit {
        commit
            .write(Write::delete(&self.record, self.mine()))
            .write(Write::delete(&self.lease_record, ExpectedRevision::Any))
    }

    pub(super) fn renew(&self, mut commit: Commit) -> Result<Commit> {
        commit.guards.push(self.guard());
        let note = LeaseNote::json(self.lease, Some(self.since))?;
        let write = Write::put(&self.lease_record, ExpectedRevision::Any, note);
        Ok(commit.write(write.expiring(When::In(self.lease))))
    }

    fn mine(&self) -> ExpectedRevision {
        ExpectedRevision::Revision(self.revision)
    }

    /// Whether this is what the holder itself leaves behind: its result, or nothing, right after its claim. Whoever takes a claim
    /// over writes at least twice before nothing is there again.
    fn is_ended(&self, slot: &Slot) -> bool {
        match slot {
            Slot::Live(record) => Entry::read(record).is_ok_and(|entry| entry.token == self.entry.token),
            Slot::Deleted(revision) => *revision == self.revision.plus(1),
            Slot::Absent => false,
        }
    }

    fn lost(&self) -> ClaimError {
        ClaimError::Lost { key: self.key.clone(), fence: self.fence() }
    }
}

/// Claims that are held together.
#[derive(Debug)]
pub(super) struct Holding {
    claims: Claims,
    /// What is held, in a word.
    key: ClaimKey,
    holds: Arc<[Hold]>,
    lost: CancellationToken,
    beat: JoinHandle<()>,
}

impl Holding {
    /// Renews these from now on, until this goes away.
    pub(super) fn keep(claims: &Claims, key: &ClaimKey, holds: Vec<Hold>) -> Self {
        let (holds, lost) = (Arc::<[Hold]>::from(holds), CancellationToken::new());
        let beat = tokio::spawn(beat(claims.store().clone(), holds.clone(), lost.clone()));
        Self { claims: claims.clone(), key: key.clone(), holds, lost, beat }
    }

    pub(super) fn holds(&self) -> &[Hold] {
        &self.holds
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Commits, provided that all of these are still held.
    pub(super) async fn commit(&self, mut commit: Commit) -> Result<Committed, ClaimError> {
        commit.guards.extend(self.holds.iter().map(Hold::guard));
        match self.claims.send(&sender::repeatable(commit)).await? {
            CommitOutcome::Committed(committed) => Ok(committed),
            CommitOutcome::Conflict(conflict) => Err(self.refused(conflict)),
        }
    }

    /// Makes a commit that ends what is held. If nobody heard how an earlier try of it ended, what is there now tells.
    pub(super) async fn end(&self, commit: Commit) -> Result<Option<Committed>, ClaimError> {
        match self.claims.send(&commit).await? {
            CommitOutcome::Committed(committed) => Ok(Some(committed)),
            CommitOutcome::Conflict(conflict) if is_over(&conflict, &self.holds) => Ok(None),
            CommitOutcome::Conflict(conflict) => Err(self.refused(conflict)),
        }
    }

    /// Gives all of these back, together with the rest of this commit.
    pub(super) async fn release(&self, with: Commit) -> Result<(), ClaimError> {
        let commit = self.holds.iter().fold(with, |commit, hold| hold.release(commit));
        self.end(commit).await.map(drop)
    }

    /// Gives all of these back without anybody waiting for it; if that does not get through, their lease runs out.
    pub(super) fn release_later(&self) {
        self.beat.abort();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.holds.is_empty() {
            return;
        }
        let (store, holds) = (self.claims.store().clone(), self.holds.clone());
        runtime.spawn(async move {
            let commit = holds.iter().fold(Commit::new(), |commit, hold| hold.release(commit));
            if let Err(error) = store.commit(commit).await {
                let key = holds.first().map_or("", |hold| hold.key.as_str());
                tracing::warn!(key, %error, "a claim was not given back; its lease runs out");
            }
        });
    }

    /// Tells a claim that was lost from whatever else does not hold.
    pub(super) fn refused(&self, conflict: Conflict) -> ClaimError {
        if let Some(hold) = self.holds.iter().find(|hold| found(&conflict, &hold.record).is_some()) {
            self.lost.cancel();
            return hold.lost();
        }
        ClaimError::Refused { key: self.key.clone(), conflict: Box::new(conflict) }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.beat.abort();
    }
}

/// Renews at a third of the shortest lease, until one is lost.
async fn beat(store: Arc<dyn Store>, holds: Arc<[Hold]>, lost: CancellationToken) {
    let Some(shortest) = holds.iter().map(|hold| hold.lease).min() else { return };
    loop {
        tokio::time::sleep(shortest / 3).await;
        match renew(&*store, &holds).await {
            Ok(Some(conflict)) if is_over(&conflict, &holds) => return,
            Ok(Some(_)) => return lost.cancel(),
            Ok(None) => {}
            Err(error) => {
                let key = holds.first().map_or("", |hold| hold.key.as_str());
                tracing::warn!(key, %error, "the lease of a claim was not renewed");
            }
        }
    }
}

async fn renew(store: &dyn Store, holds: &[Hold]) -> Result<Option<Conflict>> {
    let commit = holds.iter().try_fold(Commit::new(), |commit, hold| hold.renew(commit))?;
    Ok(store.commit(commit).await?.conflict())
}

/// Whether the holder itself has brought it to its end, which is no loss.
fn is_over(conflict: &Conflict, holds: &[Hold]) -> bool {
    holds.iter().any(|hold| found(conflict, &hold.record).is_some_and(|slot| hold.is_ended(slot)))
}
