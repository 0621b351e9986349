//! Positive controls of the audit (schedule 99): correct evidence in which nothing is found, and
//! the same evidence corrupted in one way after another, each of which must be found.

mod claims;
mod closing;
mod commits;
mod history;
mod leases;
mod log;
mod reactions;
mod runs;
mod sample;
mod scopes;

use std::collections::BTreeSet;

use tidelock::store::{StoredEvent, Version};

use super::audit;
use crate::evidence::{End, Evidence};
use crate::faults::Faults;
use crate::finding::{Finding, Kind};
use crate::journal::Entry;
use crate::ledger::Ledger;
use crate::tally::Tally;
use sample::correct;

/// The findings for correct evidence after this corruption.
fn findings(doctor: impl FnOnce(&mut Evidence)) -> Vec<Finding> {
    let mut evidence = correct();
    doctor(&mut evidence);
    audit(&evidence, &Ledger::of(&evidence.journals))
}

/// The kinds of findings, without those of the checkers of histories, which see much of the same.
fn found(doctor: impl FnOnce(&mut Evidence)) -> BTreeSet<Kind> {
    let kinds = findings(doctor).into_iter().map(|finding| finding.kind);
    kinds.filter(|kind| *kind != Kind::Anomaly).collect()
}

#[track_caller]
fn assert_found(kind: Kind, doctor: impl FnOnce(&mut Evidence)) {
    let kinds = found(doctor);
    assert!(kinds.contains(&kind), "{kind:?} is not in {kinds:?}");
}

impl Evidence {
    fn entries(&mut self, who: usize) -> &mut Vec<Entry> {
        &mut self.journals[who].1
    }

    /// The last entry of this worker that matches.
    fn last<'a, T>(&'a mut self, who: usize, pick: impl Fn(&'a mut Entry) -> Option<T>) -> T {
        self.entries(who).iter_mut().rev().find_map(pick).expect("the correct history has one")
    }

    fn work(&mut self) -> &mut Vec<StoredEvent> {
        let stream = self.space.work(0);
        self.streams.get_mut(&stream).unwrap()
    }

    fn remove_event(&mut self, version: u64) {
        let (stream, version) = (self.space.work(0), Version::new(version).unwrap());
        self.feed.retain(|event| event.stream != stream || event.version != version);
        self.work().retain(|event| event.version != version);
    }
}

#[test]
fn nothing_is_found_in_correct_evidence_and_everything_is_counted() {
    assert_eq!(findings(|_| ()), []);
    let evidence = correct();
    let handled = evidence.reaction_audit.as_ref().unwrap().count();
    let tally =
        Tally::of(&Ledger::of(&evidence.journals), &evidence.journals, handled, Faults::default());
    let expected = Tally {
        acked: 4,
        refused: 2,
        refused_late: 2,
        happened: 1,
        leases: 3,
        taken_over: 1,
        drained: 4,
        handled: 8,
        runs_finished: 1,
        repeated: 2,
        done: 5,
        told: 1,
        took: 2,
        booked: 8,
        closed: 1,
        declined: 2,
        ..Tally::default()
    };
    assert_eq!(tally, expected);
}

#[test]
fn a_worker_that_ended_by_itself_is_found() {
    let doctor = |evidence: &mut Evidence| evidence.ends[0].1 = End::Failed("panicked".to_owned());
    assert_eq!(found(doctor), BTreeSet::from([Kind::WorkerFailed]));
}
