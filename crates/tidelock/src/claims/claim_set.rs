//! Claims held together: their fences, and the lease that is renewed until drop.
//!
//! Claims that were acquired together are renewed and released together, in one commit. The fence
//! of a claim is the revision of its record, which a renewal does not change. So a commit with the
//! fence is rejected from the moment another claimant takes the claim over, and not before.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    Commit, CommitId, CommitOutcome, Committed, Conflict, ExpectedRevision, Fence, Guard,
    RecordKey, RecordWrite, Result, Revision, Slot, Timestamp, When,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::acquire::found;
use super::claim_attempt::ClaimAttempt;
use super::entry::{Entry, LeaseRecord};
use super::lease_term::LeaseTerm;
use super::quota::{Pledge, View, shared_end};
use super::{ClaimError, ClaimKey, Claims, keys};
use crate::events::submit;

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
    /// Creates it from a successful attempt, with this revision.
    pub(super) fn new(attempt: &ClaimAttempt, revision: Revision, since: Timestamp) -> Self {
        Self {
            key: attempt.key.clone(),
            record: attempt.record.clone(),
            lease_record: attempt.lease_record.clone(),
            entry: attempt.entry.clone(),
            revision,
            lease: attempt.lease.unwrap_or_default(),
            ttl: attempt.ttl,
            since,
        }
    }

    /// Creates it for an attached claim. The TTL of its result was set when it was acquired.
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

    pub(super) fn fence(&self) -> Fence {
        Fence::new(self.revision.get()).expect("a revision is in the range of a fence")
    }

    /// Guard: the claim is still held.
    pub(super) fn guard(&self) -> Guard {
        Guard::Record { key: self.record.clone(), expected: self.mine() }
    }

    /// Whether this is a lock, which ends by being released.
    pub(super) fn is_lock(&self) -> bool {
        self.key.kind() == keys::LOCK
    }

    /// Builds the write that replaces the claim with its result. The lease is left to expire; it is
    /// not read any more.
    pub(super) fn complete_write(&self, entry: &Entry) -> Result<RecordWrite> {
        let write = RecordWrite::put(&self.record, self.mine(), entry.json()?);
        Ok(match self.ttl {
            Some(ttl) => write.expiring(When::In(ttl)),
            None => write,
        })
    }

    /// Adds the release to a commit.
    pub(super) fn release(&self, commit: Commit) -> Commit {
        commit
            .write(RecordWrite::delete(&self.record, self.mine()))
            .write(RecordWrite::delete(&self.lease_record, ExpectedRevision::Any))
    }

    pub(super) fn renew(&self, mut commit: Commit, term: LeaseTerm) -> Result<Commit> {
        commit.guards.push(self.guard());
        let note = LeaseRecord::json(term.length, Some(self.since))?;
        let write = RecordWrite::put(&self.lease_record, ExpectedRevision::Any, note);
        Ok(commit.write(write.expiring(term.end)))
    }

    /// Returns what the holder itself left behind, if that caused the conflict.
    pub(super) fn own_result<'a>(&self, conflict: &'a Conflict) -> Option<&'a Slot> {
        found(conflict, &self.record).filter(|slot| self.is_ended(slot))
    }

    /// The error for a claim that was completed or released under this fence.
    pub(super) fn ended_error(&self) -> ClaimError {
        ClaimError::Over { key: self.key.clone(), fence: self.fence() }
    }

    fn mine(&self) -> ExpectedRevision {
        ExpectedRevision::Revision(self.revision)
    }

    /// Whether this is what the holder itself leaves behind: its result, or a deletion directly
    /// after its claim. A claimant that takes the claim over writes at least twice before the
    /// record is absent again.
    fn is_ended(&self, slot: &Slot) -> bool {
        match slot {
            Slot::Live(record) => {
                Entry::read(record).is_ok_and(|entry| entry.token == self.entry.token)
            }
            Slot::Deleted(revision) => *revision == self.revision.plus(1),
            Slot::Absent => false,
        }
    }

    fn lost(&self) -> ClaimError {
        ClaimError::Lost { key: self.key.clone(), fence: self.fence() }
    }
}

/// Outcome of a commit that ends held claims.
#[derive(Debug)]
pub(super) enum Ended {
    /// Committed now.
    Now(Committed),
    /// The holder had ended it before; this is the conflict.
    Before(Conflict),
}

/// Claims held together, with their renewal task.
#[derive(Debug)]
pub(super) struct ClaimSet {
    /// The claim that represents all of them.
    key: ClaimKey,
    inner: Arc<Inner>,
    lost: CancellationToken,
    renewal: JoinHandle<()>,
}

/// What is held together: claims, and reserved units of quotas.
#[derive(Debug)]
struct Inner {
    claims: Claims,
    holds: Vec<Hold>,
    pledges: Vec<Pledge>,
    /// How long everything stays held after the holder died.
    lease: Duration,
}

/// Number of attempts while reservations change between a read and a commit.
const ATTEMPTS: u32 = 8;

impl ClaimSet {
    /// Starts renewing this claim until drop.
    pub(super) fn renewing(claims: &Claims, held: Hold) -> Self {
        let (key, lease) = (held.key.clone(), held.lease);
        Self::renewing_all(claims, &key, vec![held], Vec::new(), lease)
    }

    /// Starts renewing these claims until drop.
    pub(super) fn renewing_all(
        claims: &Claims,
        key: &ClaimKey,
        holds: Vec<Hold>,
        pledges: Vec<Pledge>,
        lease: Duration,
    ) -> Self {
        let inner = Arc::new(Inner { claims: claims.clone(), holds, pledges, lease });
        let lost = CancellationToken::new();
        let renewal = tokio::spawn(renew_until_lost(inner.clone(), lost.clone()));
        Self { key: key.clone(), inner, lost, renewal }
    }

    pub(super) fn holds(&self) -> &[Hold] {
        &self.inner.holds
    }

    pub(super) fn pledges(&self) -> &[Pledge] {
        &self.inner.pledges
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Guards: everything is still held.
    pub(super) fn guards(&self) -> Vec<Guard> {
        let holds = self.holds().iter().map(Hold::guard);
        holds.chain(self.pledges().iter().map(Pledge::guard)).collect()
    }

    /// Commits on the condition that everything is still held.
    pub(super) async fn commit(&self, mut commit: Commit) -> Result<Committed, ClaimError> {
        commit.guards.extend(self.guards());
        match self.inner.claims.send(&submit::ensure_retry_id(commit)).await? {
            CommitOutcome::Committed(committed) => Ok(committed),
            CommitOutcome::Conflict(conflict) => Err(self.refused(conflict)),
        }
    }

    /// Sends a commit that ends the claims. If the reply to an earlier attempt was lost, the stored
    /// records show its outcome.
    pub(super) async fn end(&self, commit: Commit) -> Result<Ended, ClaimError> {
        match self.inner.claims.send(&commit).await? {
            CommitOutcome::Committed(committed) => {
                self.renewal.abort();
                Ok(Ended::Now(committed))
            }
            CommitOutcome::Conflict(conflict) if ended_by_holder(&conflict, self.holds()) => {
                Ok(Ended::Before(conflict))
            }
            CommitOutcome::Conflict(conflict) => Err(self.refused(conflict)),
        }
    }

    /// Sends a commit that ends everything, built from the current state of the reservations.
    pub(super) async fn end_all(
        &self,
        make: impl Fn(&[View]) -> Result<Commit, ClaimError>,
    ) -> Result<Ended, ClaimError> {
        let mut views = Pledge::read(&self.inner.claims, self.pledges()).await?;
        for _ in 0..ATTEMPTS {
            let refused = match self.end(make(&views)?).await {
                Err(refused @ ClaimError::Refused { .. }) => refused,
                ended => return ended,
            };
            let now = Pledge::read(&self.inner.claims, self.pledges()).await?;
            if views.iter().zip(&now).all(|(before, now)| before.is_like(now)) {
                return Err(refused);
            }
            views = now;
        }
        Err(ClaimError::Contended { key: self.key.clone(), attempts: ATTEMPTS })
    }

    /// Releases everything in one commit.
    pub(super) async fn release(&self) -> Result<(), ClaimError> {
        let with = self.ensure_commit_id(Commit::new());
        match self.end_all(|views| Ok(self.inner.release_commit(with.clone(), views)?)).await? {
            Ended::Now(_) => Ok(()),
            Ended::Before(conflict) => self.released_before(&conflict),
        }
    }

    /// Adds an id to a commit that ends everything, unless a record shows whether an earlier
    /// attempt was committed.
    pub(super) fn ensure_commit_id(&self, with: Commit) -> Commit {
        match self.holds().is_empty() && with.id.is_none() {
            true => with.with_id(CommitId::fresh()),
            false => with,
        }
    }

    /// The error for claims that were completed or released before.
    pub(super) fn ended_error(&self) -> ClaimError {
        match self.holds().first() {
            Some(hold) => hold.ended_error(),
            None => ClaimError::Settled { key: self.key.clone() },
        }
    }

    /// Succeeds if all claims were released and none was completed.
    fn released_before(&self, conflict: &Conflict) -> Result<(), ClaimError> {
        let completed =
            |held: &&Hold| held.own_result(conflict).is_some_and(|slot| slot.live().is_some());
        self.holds().iter().find(completed).map_or(Ok(()), |held| Err(held.ended_error()))
    }

    /// Releases everything in the background; if that fails, the lease expires.
    pub(super) fn release_in_background(&self) {
        self.renewal.abort();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let held = self.inner.clone();
        runtime.spawn(async move {
            if let Err(error) = held.release().await {
                tracing::warn!(key = held.name(), %error, "a claim was not released; its lease will expire");
            }
        });
    }

    /// Distinguishes a lost claim from other rejected parts.
    fn refused(&self, conflict: Conflict) -> ClaimError {
        if let Some(held) =
            self.holds().iter().find(|held| found(&conflict, &held.record).is_some())
        {
            self.lost.cancel();
            return held.lost();
        }
        if let Some(pledge) = self.pledges().iter().find(|pledge| pledge.is_gone(&conflict)) {
            self.lost.cancel();
            return ClaimError::Settled { key: pledge.key.clone() };
        }
        ClaimError::Refused { key: self.key.clone(), conflict: Box::new(conflict) }
    }
}

impl Drop for ClaimSet {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

impl Inner {
    fn name(&self) -> &str {
        let first = self.holds.first().map(|held| &held.key);
        first.or(self.pledges.first().map(|pledge| &pledge.key)).map_or("", |key| key.as_str())
    }

    /// Releases everything in one commit.
    async fn release(&self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let views = Pledge::read(&self.claims, &self.pledges).await?;
            let commit = self.release_commit(Commit::new(), &views)?;
            match self.claims.store().commit(commit).await?.conflict() {
                Some(conflict) if !self.is_lost(&conflict) => {}
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Adds the release of everything to a commit.
    fn release_commit(&self, with: Commit, views: &[View]) -> Result<Commit> {
        let commit = self.holds.iter().fold(with, |commit, held| held.release(commit));
        let mut both = self.pledges.iter().zip(views);
        both.try_fold(commit, |commit, (pledge, view)| pledge.give_back(commit, view))
    }

    /// Whether a claim or a reservation is lost, according to this conflict.
    fn is_lost(&self, conflict: &Conflict) -> bool {
        self.holds.iter().any(|held| found(conflict, &held.record).is_some())
            || self.pledges.iter().any(|pledge| pledge.is_gone(conflict))
    }

    /// Renews everything in one commit; returns the conflict, if any.
    async fn renew(&self) -> Result<Option<Conflict>, ClaimError> {
        if self.pledges.is_empty() {
            let commit = self.renew_holds(LeaseTerm::lasting(self.lease))?;
            return Ok(self.claims.store().commit(commit).await?.conflict());
        }
        for _ in 0..ATTEMPTS {
            let views = Pledge::read(&self.claims, &self.pledges).await?;
            let Some(conflict) =
                self.claims.store().commit(self.renewal(&views).await?).await?.conflict()
            else {
                return self.tidy(&views).await.map(|()| None);
            };
            if self.is_lost(&conflict) {
                return Ok(Some(conflict));
            }
        }
        Err(ClaimError::Contended { key: self.pledges[0].key.clone(), attempts: ATTEMPTS })
    }

    /// Removes past entries from crowded ledgers.
    async fn tidy(&self, views: &[View]) -> Result<(), ClaimError> {
        for (pledge, _) in self.pledges.iter().zip(views).filter(|(_, view)| view.is_crowded()) {
            pledge.tidy().await?;
        }
        Ok(())
    }

    fn renew_holds(&self, term: LeaseTerm) -> Result<Commit> {
        self.holds.iter().try_fold(Commit::new(), |commit, held| held.renew(commit, term))
    }

    /// Builds the renewal, with a common end for everything.
    async fn renewal(&self, views: &[View]) -> Result<Commit> {
        let now = self.claims.store().now().await?;
        let end = shared_end(now, self.lease);
        let commit = self.renew_holds(LeaseTerm::until(end, now))?;
        let mut both = self.pledges.iter().zip(views);
        both.try_fold(commit, |commit, (pledge, view)| pledge.extend(commit, view, end))
    }
}

/// Renews at a third of the lease, until a claim is lost.
async fn renew_until_lost(inner: Arc<Inner>, lost: CancellationToken) {
    loop {
        tokio::time::sleep(inner.lease / 3).await;
        match inner.renew().await {
            Ok(Some(conflict)) if ended_by_holder(&conflict, &inner.holds) => return,
            Ok(Some(_)) => return lost.cancel(),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(key = inner.name(), %error, "the lease of a claim was not renewed");
            }
        }
    }
}

/// Whether the holder itself has ended the claim, which is not a loss.
fn ended_by_holder(conflict: &Conflict, holds: &[Hold]) -> bool {
    holds.iter().any(|held| held.own_result(conflict).is_some())
}
