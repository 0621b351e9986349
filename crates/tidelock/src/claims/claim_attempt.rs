//! A bid for a claim that one claimant has at a time: a record that says who, and a lease that says
//! for how long.
//!
//! The first commit expects neither record. If the claim is there and its lease is not, the lease
//! has run out: the next commit takes the claim over, on the condition that both are still so. No
//! clock but the store's is ever looked at, and nothing is ever deleted to make room.

use std::time::Duration;

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, Record, RecordKey, RecordWrite, Result,
    Revision, Slot, Timestamp, When, WorkerName,
};

use super::acquire::{Acquire, ConflictVerdict, found};
use super::entry::{Entry, LeaseNote};
use super::term::{self, Term};
use super::{ClaimKey, keys};

/// A bid for a claim.
#[derive(Debug)]
pub(super) struct ClaimAttempt {
    pub(super) key: ClaimKey,
    pub(super) record: RecordKey,
    pub(super) lease_record: RecordKey,
    pub(super) entry: Entry,
    /// None if there is nothing to be done any more: the entry says already what came of it.
    pub(super) lease: Option<Duration>,
    /// When the lease ends, if not that long after the commit.
    pub(super) term: Option<Term>,
    /// How long the result is kept, if not for ever.
    pub(super) ttl: Option<Duration>,
    seen: Seen,
    standing: Option<ClaimStatus>,
}

/// What is thought to be there.
#[derive(Debug)]
enum Seen {
    /// Nothing.
    Free,
    /// Nothing but the lease of a claim that came to its end early.
    Leftover,
    /// A claim whose lease has run out.
    Stale(Box<(Revision, Entry)>),
}

/// How it stands with a claim that was bid for.
#[derive(Debug)]
pub(super) enum ClaimStatus {
    /// It is this claimant's, with this revision as its fence.
    Won(Revision),
    /// Somebody else is at it.
    Held(Box<Contender>),
    /// Something came of it.
    Over(Box<Entry>),
}

/// Somebody else who is at it.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) entry: Entry,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
}

impl Contender {
    /// The holder of this claim, going by its lease.
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

    /// The same, with a result that is kept for so long.
    pub(super) fn with_ttl(mut self, ttl: Option<Duration>) -> Result<Self> {
        term::check_ttl(&self.key, ttl)?;
        self.ttl = ttl;
        self.entry = self.entry.with_ttl(ttl);
        Ok(self)
    }

    /// How it stands, once it was bid for.
    pub(super) fn standing(&mut self) -> ClaimStatus {
        self.standing.take().or_else(|| self.lapsed()).expect("whoever bids learns how it stands")
    }

    /// The fence that it was won under; none if it is known of other claims only that they were
    /// won.
    pub(super) fn won_under(&mut self) -> Option<Revision> {
        match self.standing.take().or_else(|| self.lapsed()) {
            Some(ClaimStatus::Won(revision)) => Some(revision),
            _ => None,
        }
    }

    /// Whether something is known about how it stands.
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

    /// The claim is not as it was thought to be.
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

    /// The claim is as it was thought to be, and there is a lease all the same.
    fn met_lease(&mut self, lease: &Slot) -> ConflictVerdict {
        match (std::mem::replace(&mut self.seen, Seen::Leftover), lease) {
            (Seen::Stale(stale), lease) if stale.1.is_same_operation(&self.entry) => {
                self.met_own(stale.0, stale.1, Some(lease))
            }
            // Its holder had only been slow.
            (Seen::Stale(stale), Slot::Live(lease)) => {
                self.refused(ClaimStatus::Held(Box::new(Contender::new(stale.1, lease))))
            }
            _ => ConflictVerdict::Again,
        }
    }

    /// It was claimed for the same operation. If its lease has run out since, it is taken over like
    /// any other.
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

    /// What was claimed for the same operation and has run out, but is nobody else's: others of a
    /// compound have shown that it was won.
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
