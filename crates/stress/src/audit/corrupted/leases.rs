//! Corrupted evidence about leases and the work under them.

use std::collections::BTreeSet;

use tidelock::Timestamp;
use tidelock::store::{Lease, LeaseHolder, Mark, StoredEvent, WorkerName};

use super::sample::{CONSUMER, DEAD, LEASE};
use super::{assert_found, found};
use crate::evidence::Evidence;
use crate::finding::Kind;
use crate::journal::Entry;

impl Evidence {
    fn done(&mut self) -> &mut Vec<StoredEvent> {
        let stream = self.space.done_of(&self.space.item(0));
        self.streams.get_mut(&stream).unwrap()
    }
}

fn held(entry: &mut Entry) -> Option<&mut Entry> {
    matches!(entry, Entry::Held { .. }).then_some(entry)
}

fn taken_over(entry: &mut Entry) -> Option<(&mut Timestamp, &mut Lease)> {
    match entry {
        Entry::Held { at, lease, .. } if lease.expiries > 0 => Some((at, lease)),
        _ => None,
    }
}

#[test]
fn two_holders_at_once_are_found() {
    let too_early = |evidence: &mut Evidence| {
        let (at, _) = evidence.last(CONSUMER, taken_over);
        *at = Timestamp::from_micros(at.micros() - 1).unwrap();
    };
    assert_eq!(found(too_early), BTreeSet::from([Kind::Overlap]));
    let twice = |evidence: &mut Evidence| {
        let grant = evidence.last(CONSUMER, held).clone();
        evidence.entries(DEAD).push(grant);
    };
    assert_eq!(found(twice), BTreeSet::from([Kind::Overlap]));
}

#[test]
fn a_takeover_that_was_not_counted_is_found() {
    let doctor = |evidence: &mut Evidence| evidence.last(CONSUMER, taken_over).1.expiries = 0;
    assert_eq!(found(doctor), BTreeSet::from([Kind::MiscountedExpiry]));
}

#[test]
fn a_lease_that_is_stuck_is_found() {
    let held = |evidence: &mut Evidence| {
        let (worker, now) = (WorkerName::new("dead").unwrap(), Timestamp::from_micros(0).unwrap());
        evidence.items[0].holder =
            Some(LeaseHolder { worker, since: now, deadline: now.plus(LEASE) });
    };
    assert_eq!(found(held), BTreeSet::from([Kind::StuckLease]));
    assert_found(Kind::StuckLease, |evidence| {
        evidence.entries(CONSUMER).retain(|entry| !matches!(entry, Entry::Acked { .. }));
    });
}

#[test]
fn an_event_that_was_not_drained_is_found() {
    assert_found(Kind::Undrained, |evidence| drop(evidence.done().pop()));
    let unfinished = |evidence: &mut Evidence| evidence.items[0].at = Mark::new(2).unwrap();
    assert_eq!(found(unfinished), BTreeSet::from([Kind::Undrained]));
    let unattended = |evidence: &mut Evidence| drop(evidence.items.pop());
    assert_eq!(found(unattended), BTreeSet::from([Kind::Undrained]));
}

#[test]
fn an_event_that_was_drained_twice_is_found() {
    assert_found(Kind::DrainedTwice, |evidence| {
        let again = evidence.done()[0].clone();
        evidence.done().push(again);
    });
}
