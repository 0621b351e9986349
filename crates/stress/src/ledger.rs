//! The journals of all workers, indexed by commit and by lease.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidelock::Timestamp;
use tidelock::store::{
    Commit, CommitId, Committed, Fence, ItemRef, Lease, LeaseToken, ViolationKind,
};

use crate::journal::Entry;
use crate::trouble::{Told, Trouble};

/// Journals by worker. The supervisor's comes last, as it resolves what others left open.
pub(crate) type Journals = Vec<(String, Vec<Entry>)>;

#[derive(Debug, Default)]
pub(crate) struct Ledger<'a> {
    pub(crate) cases: HashMap<CommitId, Case<'a>>,
    /// Grants by item and fence. More than one under a fence is a violation.
    pub(crate) grants: BTreeMap<(&'a ItemRef, Fence), Vec<Grant<'a>>>,
    /// Leases under which a worker continued late.
    pub(crate) late: HashSet<&'a LeaseToken>,
    /// Calls other than commits that gave no answer.
    pub(crate) stumbles: usize,
}

/// Everything known about one commit.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) who: &'a str,
    pub(crate) commit: &'a Commit,
    /// Its steps, in order.
    pub(crate) steps: Vec<Step<'a>>,
}

#[derive(Debug)]
pub(crate) enum Step<'a> {
    Failed(&'a Trouble),
    /// Its worker is dead; the supervisor takes over.
    Orphaned,
    Again(Timestamp),
    Acked(&'a Committed),
    Refused(&'a [ViolationKind]),
}

#[derive(Debug)]
pub(crate) struct Grant<'a> {
    pub(crate) who: &'a str,
    pub(crate) at: Timestamp,
    pub(crate) lease: &'a Lease,
    /// The latest known end of the lease if it was not settled.
    pub(crate) deadline: Timestamp,
}

impl<'a> Ledger<'a> {
    pub(crate) fn of(journals: &'a Journals) -> Self {
        let mut ledger = Self::default();
        for (who, entries) in journals {
            entries.iter().for_each(|entry| ledger.enter(who, entry));
        }
        ledger
    }

    fn enter(&mut self, who: &'a str, entry: &'a Entry) {
        match entry {
            Entry::Try(commit) => self.open(who, commit),
            Entry::Acked { id, committed } => self.step(*id, Step::Acked(committed)),
            Entry::Refused { id, kinds, .. } => self.step(*id, Step::Refused(kinds)),
            Entry::Failed { id, trouble } => self.step(*id, Step::Failed(trouble)),
            Entry::Again { id, now } => self.step(*id, Step::Again(*now)),
            Entry::Orphaned(id) => self.step(*id, Step::Orphaned),
            Entry::Held { at, lease, .. } => self.grant(who, *at, lease),
            Entry::Renewed { lease, deadline, .. } => self.renew(lease, *deadline),
            Entry::Late(lease) => drop(self.late.insert(lease)),
            Entry::Stumbled { .. } => self.stumbles += 1,
            Entry::Now(_)
            | Entry::Seen(_)
            | Entry::Effect { .. }
            | Entry::Ordered(_)
            | Entry::Told { .. }
            | Entry::Acted { .. }
            | Entry::Booking { .. }
            | Entry::Booked(_)
            | Entry::Shut(_)
            | Entry::Closing { .. }
            | Entry::Archived { .. }
            | Entry::Closed { .. }
            | Entry::Wished(_)
            | Entry::Changed { .. }
            | Entry::Declined(_)
            | Entry::Locked { .. }
            | Entry::Bumped { .. }
            | Entry::Outrun { .. }
            | Entry::Won { .. }
            | Entry::Receipt { .. }
            | Entry::Took { .. }
            | Entry::GivesBack { .. } => {}
        }
    }

    fn open(&mut self, who: &'a str, commit: &'a Commit) {
        let id = commit.id.expect("every commit of a worker has an id");
        self.cases.insert(id, Case { who, commit, steps: Vec::new() });
    }

    fn step(&mut self, id: CommitId, step: Step<'a>) {
        if let Some(case) = self.cases.get_mut(&id) {
            case.steps.push(step);
        }
    }

    fn grant(&mut self, who: &'a str, at: Timestamp, lease: &'a Lease) {
        let grant = Grant { who, at, lease, deadline: lease.deadline };
        self.grants.entry((&lease.item, lease.fence)).or_default().push(grant);
    }

    fn renew(&mut self, token: &'a LeaseToken, deadline: Timestamp) {
        for grant in self.grants.get_mut(&(&token.item, token.fence)).into_iter().flatten() {
            grant.deadline = grant.deadline.max(deadline);
        }
    }
}

impl<'a> Case<'a> {
    pub(crate) fn acks(&self) -> impl Iterator<Item = &'a Committed> {
        self.steps.iter().filter_map(|step| match step {
            Step::Acked(committed) => Some(*committed),
            _ => None,
        })
    }

    /// The result that was acknowledged first.
    pub(crate) fn acked(&self) -> Option<&'a Committed> {
        self.acks().next()
    }

    pub(crate) fn refused(&self) -> Option<&'a [ViolationKind]> {
        self.steps.iter().find_map(|step| match step {
            Step::Refused(kinds) => Some(*kinds),
            _ => None,
        })
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.acked().is_some() || self.refused().is_some()
    }

    /// Number of calls that failed and said that nothing was written.
    pub(crate) fn failed_for_now(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| matches!(step, Step::Failed(t) if t.advice == Told::Later))
            .count()
    }

    /// For a commit whose outcome was unknown for a while: whether the attempt in doubt had
    /// happened.
    pub(crate) fn doubt(&self) -> Option<bool> {
        let in_doubt = |step: &Step<'_>| match step {
            Step::Orphaned => true,
            Step::Failed(trouble) => trouble.advice == Told::Unknown,
            _ => false,
        };
        let from = self.steps.iter().position(in_doubt)?;
        Some(self.was_there_before(&self.steps[from..]))
    }

    /// Whether the store said that nothing was written, and was wrong.
    pub(crate) fn broke_its_word(&self) -> bool {
        matches!(self.steps.first(), Some(Step::Failed(trouble)) if trouble.advice == Told::Later)
            && self.was_there_before(&self.steps)
    }

    /// Whether it was written before it was sent again for the first time in these steps.
    fn was_there_before(&self, steps: &[Step<'_>]) -> bool {
        let again = steps.iter().find_map(|step| match step {
            Step::Again(now) => Some(*now),
            _ => None,
        });
        again.zip(self.acked()).is_some_and(|(again, committed)| committed.at < again)
    }
}
