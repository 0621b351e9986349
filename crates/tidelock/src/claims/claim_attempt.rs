//! An attempt to acquire an exclusive claim: a record that names the claimant, and a lease.
//!
//! The first commit expects neither record. If the claim exists and its lease does not, the lease
//! has expired: the next commit takes the claim over, on the condition that both are still so. Only
//! the store's clock is used, and nothing is deleted to make room.

use std::time::Duration;

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, Record, RecordKey, RecordWrite, Result,
    Revision, Slot, Timestamp, When, WorkerName,
};

use super::acquire::{Acquire, ConflictVerdict, found};
use super::entry::{Entry, LeaseNote};
use super::term::{self, Term};
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
    pub(super) term: Option<Term>,
    /// How long the result is kept; `None` for indefinitely.
    pub(super) ttl: Option<Duration>,
    seen: Seen,
    standing: Option<ClaimStatus>,
}

/// Assumed state of the records.
#[derive(Debug)]
enum Seen {
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
        Self { entry, since: LeaseNote::since(lease), until: lease.expires_at }
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
        lease.map_or(Ok(()), |lease| term::check(&key, "lease", lease))?;
        let (term, ttl, seen, standing) = (None, None, Seen::Free, None);
        Ok(Self { key, record, lease_record, entry, lease, term, ttl, seen, standing })
    }

    /// Sets how long the result is kept.
    pub(super) fn with_ttl(mut self, ttl: Option<Duration>) -> Result<Self> {
        term::check_ttl(&self.key, ttl)?;
        self.ttl = ttl;
        self.entry = self.entry.with_ttl(ttl);
        Ok(self)
    }

    /// Takes the result of the attempt.
    pub(super) fn standing(&mut self) -> ClaimStatus {
        self.standing.take().or_else(|| self.lapsed()).expect("whoever bids learns how it stands")
    }

    /// Takes the fence of an acquired claim; `None` if only other claims of a compound show that it
    /// was acquired.
    pub(super) fn won_under(&mut self) -> Option<Revision> {
        match self.standing.take().or_else(|| self.lapsed()) {
            Some(ClaimStatus::Won(revision)) => Some(revision),
            _ => None,
        }
    }

    /// Whether the result is known.
    pub(super) fn stands(&self) -> bool {
        self.standing.is_some()
    }

    fn expected(&self) -> (ExpectedRevision, ExpectedRevision) {
        match &self.seen {
            Seen::Free => (ExpectedRevision::Absent, ExpectedRevision::Absent),
            Seen::Leftover => (ExpectedRevision::Absent, ExpectedRevision::Any),
            Seen::Stale(stale) => (ExpectedRevision::Revision(stale.0), ExpectedRevision::Absent),
        }
    }

    /// Evaluates a claim record that is not as assumed.
    fn met(&mut self, claim: &Slot, lease: Option<&Slot>) -> Result<ConflictVerdict> {
        let Slot::Live(record) = claim else {
            self.seen = Seen::Free;
            return Ok(ConflictVerdict::Again);
        };
        let entry = Entry::read(record)?;
        if entry.token == self.entry.token {
            self.standing = Some(ClaimStatus::Won(record.revision));
            return Ok(ConflictVerdict::Landed(None));
        }
        if entry.is_same_operation(&self.entry) {
            return Ok(self.met_own(record.revision, entry, lease));
        }
        if !entry.is_pending() {
            return Ok(self.refused(ClaimStatus::Over(Box::new(entry))));
        }
        match lease {
            Some(Slot::Live(lease)) => {
                Ok(self.refused(ClaimStatus::Held(Box::new(Contender::new(entry, lease)))))
            }
            _ => {
                self.seen = Seen::Stale(Box::new((record.revision, entry)));
                Ok(ConflictVerdict::Again)
            }
        }
    }

    /// Evaluates a lease that exists although the claim is as assumed.
    fn met_lease(&mut self, lease: &Slot) -> ConflictVerdict {
        match (std::mem::replace(&mut self.seen, Seen::Leftover), lease) {
            (Seen::Stale(stale), lease) if stale.1.is_same_operation(&self.entry) => {
                self.met_own(stale.0, stale.1, Some(lease))
            }
            // Its holder was only slow.
            (Seen::Stale(stale), Slot::Live(lease)) => {
                self.refused(ClaimStatus::Held(Box::new(Contender::new(stale.1, lease))))
            }
            _ => ConflictVerdict::Again,
        }
    }

    /// Evaluates a claim of the same operation. If its lease has expired since, it is taken over
    /// like any other.
    fn met_own(
        &mut self,
        revision: Revision,
        entry: Entry,
        lease: Option<&Slot>,
    ) -> ConflictVerdict {
        match lease {
            Some(Slot::Live(lease)) => self.landed(revision, entry, LeaseNote::since(lease)),
            _ if self.lease.is_none() => self.landed(revision, entry, None),
            _ => {
                self.seen = Seen::Stale(Box::new((revision, entry)));
                ConflictVerdict::Again
            }
        }
    }

    fn landed(
        &mut self,
        revision: Revision,
        entry: Entry,
        since: Option<Timestamp>,
    ) -> ConflictVerdict {
        self.standing = Some(ClaimStatus::Won(revision));
        self.entry = entry;
        ConflictVerdict::Landed(since)
    }

    /// A claim of the same operation whose lease has expired and that was not taken over: other
    /// claims of a compound show that it was acquired.
    fn lapsed(&self) -> Option<ClaimStatus> {
        match &self.seen {
            Seen::Stale(stale) if stale.1.is_same_operation(&self.entry) => {
                Some(ClaimStatus::Won(stale.0))
            }
            _ => None,
        }
    }

    fn refused(&mut self, standing: ClaimStatus) -> ConflictVerdict {
        self.standing = Some(standing);
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
        Ok(match (self.lease, &self.seen) {
            (Some(long), _) => {
                let term = self.term.unwrap_or(Term::lasting(long));
                let note = LeaseNote::json(term.length, None)?;
                commit.write(RecordWrite::put(&self.lease_record, lease, note).expiring(term.end))
            }
            (None, Seen::Stale(_)) => commit.guard_record(&self.lease_record, lease),
            (None, _) => commit,
        })
    }

    fn is_witness(&self) -> bool {
        true
    }

    fn won(&mut self, committed: &Committed) -> Result<()> {
        let written = committed.writes.iter().find(|written| written.key == self.record);
        self.standing = written.and_then(|written| written.revision).map(ClaimStatus::Won);
        Ok(())
    }

    fn learn(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        match (found(conflict, &self.record), found(conflict, &self.lease_record)) {
            (None, None) => Ok(ConflictVerdict::Nothing),
            (None, Some(lease)) => Ok(self.met_lease(lease)),
            (Some(claim), lease) => self.met(claim, lease),
        }
    }
}
