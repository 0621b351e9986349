//! An attempt to acquire an exclusive claim: a record that names the claimant, and a lease.
//!
//! The first commit expects neither record. If the claim exists and its lease does not, the lease
//! has expired: the next commit takes the claim over, on the condition that both are still so. Only
//! the store's clock is used, and nothing is deleted to make room.

use std::time::Duration;

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, Record, RecordKey, RecordWrite, Result,
    Revision, Slot, StoreError, StoreOperation, Timestamp, When, WorkerName,
};

use super::acquire::{Acquire, ConflictVerdict, found};
use super::entry::{Entry, LeaseRecord};
use super::lease_term::{self, LeaseTerm};
use super::{ClaimKey, keys};

/// An attempt to acquire a claim.
#[derive(Debug)]
pub(super) struct ClaimAttempt {
    pub(super) key: ClaimKey,
    pub(super) record: RecordKey,
    pub(super) lease_record: RecordKey,
    pub(super) entry: Entry,
    /// The lease; `None` for a claim that is completed in the same commit.
    pub(super) lease: Option<Duration>,
    /// End of the lease, if it is not its duration after the commit.
    pub(super) term: Option<LeaseTerm>,
    /// How long the result is kept; `None` for indefinitely.
    pub(super) ttl: Option<Duration>,
    assumed: Assumed,
    status: Option<ClaimStatus>,
}

/// Assumed state of the records.
#[derive(Debug)]
enum Assumed {
    /// Both are absent.
    Free,
    /// Only the lease of a claim that ended early.
    Leftover,
    /// A claim whose lease has expired.
    Stale(Box<(Revision, Entry)>),
}

/// Result of the attempt.
#[derive(Debug)]
pub(super) enum ClaimStatus {
    /// The claim is acquired, with this revision as its fence.
    Won(Revision),
    /// Another claimant holds it.
    Held(Box<Contender>),
    /// It was completed or failed.
    Over(Box<Entry>),
}

/// Another claimant that holds the claim.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) entry: Entry,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
}

impl Contender {
    /// Creates it from the claim and its lease.
    pub(super) fn new(entry: Entry, lease: &Record) -> Self {
        Self { entry, since: LeaseRecord::since(lease), until: lease.expires_at }
    }

    pub(super) fn by(&self) -> &WorkerName {
        &self.entry.by
    }
}

impl ClaimAttempt {
    pub(super) fn new(
        key: ClaimKey,
        entry: Entry,
        lease: impl Into<Option<Duration>>,
    ) -> Result<Self> {
        let (record, lease_record) = (keys::record(&key)?, keys::lease(&key)?);
        let lease = lease.into();
        lease.map_or(Ok(()), |lease| lease_term::check(&key, "lease", lease))?;
        let (term, ttl, assumed, status) = (None, None, Assumed::Free, None);
        Ok(Self { key, record, lease_record, entry, lease, term, ttl, assumed, status })
    }

    /// Sets how long the result is kept.
    pub(super) fn with_ttl(mut self, ttl: Option<Duration>) -> Result<Self> {
        lease_term::check_ttl(&self.key, ttl)?;
        self.ttl = ttl;
        self.entry = self.entry.with_ttl(ttl);
        Ok(self)
    }

    /// Takes the result of the attempt.
    pub(super) fn status(&mut self) -> ClaimStatus {
        self.status
            .take()
            .or_else(|| self.expired_own())
            .expect("an evaluated attempt has a status")
    }

    /// Takes the fence of an acquired claim; `None` if only other claims of a compound show that it
    /// was acquired.
    pub(super) fn won_under(&mut self) -> Option<Revision> {
        match self.status.take().or_else(|| self.expired_own()) {
            Some(ClaimStatus::Won(revision)) => Some(revision),
            _ => None,
        }
    }

    /// Whether the result is known.
    pub(super) fn has_status(&self) -> bool {
        self.status.is_some()
    }

    fn expected(&self) -> (ExpectedRevision, ExpectedRevision) {
        match &self.assumed {
            Assumed::Free => (ExpectedRevision::Absent, ExpectedRevision::Absent),
            Assumed::Leftover => (ExpectedRevision::Absent, ExpectedRevision::Any),
            Assumed::Stale(stale) => {
                (ExpectedRevision::Revision(stale.0), ExpectedRevision::Absent)
            }
        }
    }

    /// Evaluates a claim record that is not as assumed.
    fn on_claim_found(&mut self, claim: &Slot, lease: Option<&Slot>) -> Result<ConflictVerdict> {
        let Slot::Live(record) = claim else {
            self.assumed = Assumed::Free;
            return Ok(ConflictVerdict::Retry);
        };
        let entry = Entry::read(record)?;
        if entry.token == self.entry.token {
            self.status = Some(ClaimStatus::Won(record.revision));
            return Ok(ConflictVerdict::AlreadyCommitted(None));
        }
        if entry.is_same_operation(&self.entry) {
            return Ok(self.on_own_claim(record.revision, entry, lease));
        }
        if !entry.is_pending() {
            return Ok(self.refused(ClaimStatus::Over(Box::new(entry))));
        }
        match lease {
            Some(Slot::Live(lease)) => {
                Ok(self.refused(ClaimStatus::Held(Box::new(Contender::new(entry, lease)))))
            }
            _ => {
                self.assumed = Assumed::Stale(Box::new((record.revision, entry)));
                Ok(ConflictVerdict::Retry)
            }
        }
    }

    /// Evaluates a lease that exists although the claim is as assumed.
    fn on_lease_found(&mut self, lease: &Slot) -> ConflictVerdict {
        match (std::mem::replace(&mut self.assumed, Assumed::Leftover), lease) {
            (Assumed::Stale(stale), lease) if stale.1.is_same_operation(&self.entry) => {
                self.on_own_claim(stale.0, stale.1, Some(lease))
            }
            // Its holder was only slow.
            (Assumed::Stale(stale), Slot::Live(lease)) => {
                self.refused(ClaimStatus::Held(Box::new(Contender::new(stale.1, lease))))
            }
            _ => ConflictVerdict::Retry,
        }
    }

    /// Evaluates a claim of the same operation. If its lease has expired since, it is taken over
    /// like any other.
    fn on_own_claim(
        &mut self,
        revision: Revision,
        entry: Entry,
        lease: Option<&Slot>,
    ) -> ConflictVerdict {
        match lease {
            Some(Slot::Live(lease)) => {
                self.already_committed(revision, entry, LeaseRecord::since(lease))
            }
            _ if self.lease.is_none() => self.already_committed(revision, entry, None),
            _ => {
                self.assumed = Assumed::Stale(Box::new((revision, entry)));
                ConflictVerdict::Retry
            }
        }
    }

    fn already_committed(
        &mut self,
        revision: Revision,
        entry: Entry,
        since: Option<Timestamp>,
    ) -> ConflictVerdict {
        self.status = Some(ClaimStatus::Won(revision));
        self.entry = entry;
        ConflictVerdict::AlreadyCommitted(since)
    }

    /// A claim of the same operation whose lease has expired and that was not taken over: other
    /// claims of a compound show that it was acquired.
    fn expired_own(&self) -> Option<ClaimStatus> {
        match &self.assumed {
            Assumed::Stale(stale) if stale.1.is_same_operation(&self.entry) => {
                Some(ClaimStatus::Won(stale.0))
            }
            _ => None,
        }
    }

    fn refused(&mut self, status: ClaimStatus) -> ConflictVerdict {
        self.status = Some(status);
        ConflictVerdict::Refused
    }
}

impl Acquire for ClaimAttempt {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        let (claim, lease) = self.expected();
        let write = RecordWrite::put(&self.record, claim, self.entry.json()?);
        let commit = commit.write(match self.ttl {
            Some(ttl) if self.lease.is_none() => write.expiring(When::In(ttl)),
            _ => write,
        });
        Ok(match (self.lease, &self.assumed) {
            (Some(long), _) => {
                let term = self.term.unwrap_or(LeaseTerm::lasting(long));
                let note = LeaseRecord::json(term.length, None)?;
                commit.write(RecordWrite::put(&self.lease_record, lease, note).expiring(term.end))
            }
            (None, Assumed::Stale(_)) => commit.guard_record(&self.lease_record, lease),
            (None, _) => commit,
        })
    }

    fn detects_commit(&self) -> bool {
        true
    }

    fn won(&mut self, committed: &Committed) -> Result<()> {
        let written = committed.writes.iter().find(|written| written.key == self.record);
        let revision = written.and_then(|written| written.revision).ok_or_else(|| {
            let answer = "the store acknowledged it, and answered no revision of its record";
            StoreError::corrupt(format!("claim {:?}: {answer}", self.key))
                .during(StoreOperation::Commit)
        })?;
        self.status = Some(ClaimStatus::Won(revision));
        Ok(())
    }

    fn evaluate(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        match (found(conflict, &self.record), found(conflict, &self.lease_record)) {
            (None, None) => Ok(ConflictVerdict::Unrelated),
            (None, Some(lease)) => Ok(self.on_lease_found(lease)),
            (Some(claim), lease) => self.on_claim_found(claim, lease),
        }
    }
}
