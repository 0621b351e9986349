//! Corrupted evidence about reactions.

use std::collections::BTreeSet;

use tidelock::Timestamp;
use tidelock::reactions::TargetInfo;
use tidelock::store::{Item, LeaseHolder, Mark, StoredEvent, WorkerName};

use super::sample::{CONSUMER, DEAD, LEASE};
use super::{assert_found, found};
use crate::evidence::Evidence;
use crate::finding::Kind;
use crate::journal::Entry;
use crate::reaction::Reaction;

impl Evidence {
    /// The events handled at a stream's own target.
    fn handled(&mut self) -> &mut Vec<StoredEvent> {
        let stream = self.space.handled(Reaction::Own, self.space.work(0).as_str());
        self.reaction_audit.as_mut().unwrap().handled.get_mut(&stream).unwrap()
    }

    /// Adds an idle target with this one change.
    fn target(&mut self, but: impl FnOnce(&mut Item)) {
        let mut item = self.items[0].clone();
        but(&mut item);
        let followed = TargetInfo {
            reaction: Reaction::Own.name().to_owned(),
            target: item.item.key.to_string(),
            unrouted: false,
            at: item.at,
            mark: item.mark,
            attempts: item.attempts,
            failures: item.failures,
            expiries: item.expiries,
            blocked: item.blocked,
            error: item.error,
            holder: item.holder,
            due: item.due,
            hold: item.hold,
            lane: item.lane,
            priority: item.priority,
        };
        self.reaction_audit.as_mut().unwrap().targets.push(followed);
    }
}

#[test]
fn an_event_that_a_reaction_did_not_handle_is_found() {
    let doctor = |evidence: &mut Evidence| drop(evidence.handled().pop());
    assert_eq!(found(doctor), BTreeSet::from([Kind::Unhandled]));
    let nowhere =
        |evidence: &mut Evidence| evidence.reaction_audit.as_mut().unwrap().handled.clear();
    assert_eq!(found(nowhere), BTreeSet::from([Kind::Unhandled]));
}

#[test]
fn an_event_that_a_reaction_handled_twice_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let again = evidence.handled().last().unwrap().clone();
        evidence.handled().push(again);
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::HandledTwice]));
}

#[test]
fn events_that_were_handled_out_of_order_are_found() {
    let doctor = |evidence: &mut Evidence| evidence.handled().swap(0, 1);
    assert_eq!(found(doctor), BTreeSet::from([Kind::OutOfOrder]));
}

#[test]
fn an_event_that_was_handled_at_the_wrong_target_is_found() {
    assert_found(Kind::Unexplained, |evidence| {
        let (stray, other) = (evidence.handled().pop().unwrap(), evidence.space.work(1));
        let stream = evidence.space.handled(Reaction::Own, other.as_str());
        evidence.reaction_audit.as_mut().unwrap().handled.get_mut(&stream).unwrap().push(stray);
    });
}

#[test]
fn an_effect_that_is_missing_or_has_another_key_is_found() {
    let missing = |evidence: &mut Evidence| {
        let is_effect = |entry: &Entry| matches!(entry, Entry::Effect { .. });
        let last = evidence.entries(DEAD).iter().rposition(is_effect).unwrap();
        evidence.entries(DEAD).remove(last);
    };
    assert_eq!(found(missing), BTreeSet::from([Kind::WrongEffect]));
    let renamed = |evidence: &mut Evidence| {
        let key = evidence.last(CONSUMER, |entry| match entry {
            Entry::Effect { key, .. } => Some(key),
            _ => None,
        });
        key.push_str(" again");
    };
    assert_eq!(found(renamed), BTreeSet::from([Kind::WrongEffect]));
}

#[test]
fn a_target_that_is_blocked_or_held_or_behind_is_found() {
    assert_eq!(found(|evidence| evidence.target(|_| ())), BTreeSet::new());
    let blocked = |evidence: &mut Evidence| evidence.target(|item| item.blocked = true);
    assert_eq!(found(blocked), BTreeSet::from([Kind::Blocked]));
    let behind = |evidence: &mut Evidence| {
        evidence.target(|item| item.mark = item.mark.max(Mark::new(9).unwrap()));
    };
    assert_eq!(found(behind), BTreeSet::from([Kind::Unhandled]));
    let held = |evidence: &mut Evidence| {
        let (worker, now) = (WorkerName::new("dead").unwrap(), Timestamp::from_micros(0).unwrap());
        evidence.target(|item| {
            item.holder = Some(LeaseHolder { worker, since: now, deadline: now.plus(LEASE) });
        });
    };
    assert_eq!(found(held), BTreeSet::from([Kind::StuckLease]));
}
