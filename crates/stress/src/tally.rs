//! The figures of a round.

use std::collections::HashSet;

use tidelock::store::ViolationKind;

use crate::faults::Faults;
use crate::journal::Entry;
use crate::ledger::{Case, Journals, Ledger};
use crate::roles::Drained;
use crate::sample_run::THANK;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) acked: u64,
    pub(crate) refused: u64,
    /// Late commits that were refused because the lease was lost.
    pub(crate) refused_late: u64,
    /// Unknown outcomes that turned out to have happened,
    pub(crate) happened: u64,
    /// and those that had not.
    pub(crate) not_happened: u64,
    /// Calls that failed and said that nothing was written, and failed reads.
    pub(crate) errors: u64,
    pub(crate) leases: u64,
    /// Leases that expired and were granted again.
    pub(crate) taken_over: u64,
    /// Events drained.
    pub(crate) drained: u64,
    /// Events handled, by each reaction.
    pub(crate) handled: u64,
    /// Runs that reached their last step.
    pub(crate) runs_finished: u64,
    /// Repeated effects, because a handler lost its ack, or a step its record.
    pub(crate) repeated: u64,
    /// Writes under a lock, and changes of scopes.
    pub(crate) done: u64,
    /// Results of keys reported to a worker.
    pub(crate) told: u64,
    /// Grants of quota units.
    pub(crate) took: u64,
    /// Acknowledged bookings, and closed books.
    pub(crate) booked: u64,
    pub(crate) closed: u64,
    /// Declined changes of scopes.
    pub(crate) declined: u64,
    pub(crate) faults: Faults,
}

impl Tally {
    /// Counts the journals, and takes the number of handled events from the store.
    pub(crate) fn of(
        ledger: &Ledger<'_>,
        journals: &Journals,
        handled: u64,
        faults: Faults,
    ) -> Self {
        let count = |is_so: &dyn Fn(&Case<'_>) -> bool| {
            ledger.cases.values().filter(|case| is_so(case)).count() as u64
        };
        let failed: usize = ledger.cases.values().map(Case::failed_for_now).sum();
        let grants = || ledger.grants.values().flatten();
        Self {
            acked: count(&|case| case.acked().is_some()),
            refused: count(&|case| case.refused().is_some()),
            refused_late: count(&|case| was_late(ledger, case))
                + noted(journals, |entry| matches!(entry, Entry::Outrun { .. })),
            happened: count(&|case| case.doubt() == Some(true)),
            not_happened: count(&|case| case.doubt() == Some(false)),
            errors: (failed + ledger.stumbles) as u64,
            leases: grants().count() as u64,
            taken_over: grants().filter(|grant| grant.lease.expiries > 0).count() as u64,
            drained: drained(ledger),
            handled,
            runs_finished: runs_finished(journals),
            repeated: repeated(journals),
            done: noted(journals, |entry| {
                matches!(entry, Entry::Bumped { .. } | Entry::Changed { .. })
            }),
            told: noted(journals, |entry| matches!(entry, Entry::Receipt { .. })),
            took: noted(journals, |entry| matches!(entry, Entry::Took { .. })),
            booked: noted(journals, |entry| matches!(entry, Entry::Booked(_))),
            closed: noted(journals, |entry| matches!(entry, Entry::Closed { .. })),
            declined: noted(journals, |entry| matches!(entry, Entry::Declined(_))),
            faults,
        }
    }

    pub(crate) fn unknown(&self) -> u64 {
        self.happened + self.not_happened
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.acked += other.acked;
        self.refused += other.refused;
        self.refused_late += other.refused_late;
        self.happened += other.happened;
        self.not_happened += other.not_happened;
        self.errors += other.errors;
        self.leases += other.leases;
        self.taken_over += other.taken_over;
        self.drained += other.drained;
        self.handled += other.handled;
        self.runs_finished += other.runs_finished;
        self.repeated += other.repeated;
        self.done += other.done;
        self.told += other.told;
        self.took += other.took;
        self.booked += other.booked;
        self.closed += other.closed;
        self.declined += other.declined;
        self.faults.add(&other.faults);
    }
}

fn was_late(ledger: &Ledger<'_>, case: &Case<'_>) -> bool {
    case.refused().is_some_and(|kinds| kinds.contains(&ViolationKind::LeaseLost))
        && case.commit.settlements.iter().any(|settlement| ledger.late.contains(&settlement.lease))
}

fn drained(ledger: &Ledger<'_>) -> u64 {
    let acked = ledger.cases.values().filter(|case| case.acked().is_some());
    let events = acked.flat_map(|case| &case.commit.appends).flat_map(|append| &append.events);
    let drains = events.filter_map(|event| event.payload.to::<Drained>().ok());
    drains.map(|drain| drain.through.get().saturating_sub(drain.after.get())).sum()
}

fn repeated(journals: &Journals) -> u64 {
    let mut keys = HashSet::new();
    let entries = journals.iter().flat_map(|(_, entries)| entries);
    let repeats = entries.filter(
        |entry| matches!(entry, Entry::Effect { key, .. } | Entry::Acted { key, .. } if !keys.insert(key)),
    );
    repeats.count() as u64
}

/// Number of matching entries.
fn noted(journals: &Journals, is_so: impl Fn(&Entry) -> bool) -> u64 {
    journals.iter().flat_map(|(_, entries)| entries).filter(|entry| is_so(entry)).count() as u64
}

fn runs_finished(journals: &Journals) -> u64 {
    let entries = journals.iter().flat_map(|(_, entries)| entries);
    let last = entries.filter_map(|entry| match entry {
        Entry::Acted { run, step, .. } if step == THANK => Some(run),
        _ => None,
    });
    last.collect::<HashSet<_>>().len() as u64
}
