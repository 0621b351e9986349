//! Corrupted evidence about claims: a lock that was taken over, a key and units of a quota.

use std::collections::BTreeSet;
use std::time::Duration;

use tidelock::Timestamp;
use tidelock::store::{Commit, Fence, RawJson, Store, StoredEvent};

use super::sample::{CONSUMER, DEAD, Sample};
use super::{Evidence, found};
use crate::claim::{Bump, Completed, Quota};
use crate::finding::Kind;
use crate::journal::Entry;

const KEY: &str = "pay-1";

impl Sample {
    /// Two holders of one lock, the first of which is late; a key, and all units of a quota.
    pub(super) async fn claim(&self) {
        let now = self.store.now().await.unwrap();
        let lost = Entry::Outrun { lock: 0, fence: fence(1) };
        [locked(1, now), lost].iter().for_each(|entry| self.callers[DEAD].note(entry));
        for (nth, total) in [(2, 1), (3, 2)] {
            let now = self.store.now().await.unwrap();
            self.callers[CONSUMER].note(&locked(nth, now));
            let bump = Bump { fence: fence(nth), total };
            let commit = bump.added_to(Commit::new(), &self.space, 0).unwrap();
            self.store.commit(commit).await.unwrap().committed().unwrap();
            self.callers[CONSUMER].note(&Entry::Bumped { lock: 0, fence: fence(nth) });
        }
        let completed = Completed { key: KEY.to_owned(), result: "paid".to_owned() };
        let commit = completed.added_to(Commit::new(), &self.space).unwrap();
        self.store.commit(commit).await.unwrap().committed().unwrap();
        let won = Entry::Won { key: KEY.to_owned(), fence: fence(1) };
        let told = Entry::Receipt { key: KEY.to_owned(), result: "paid".to_owned() };
        let back = Entry::GivesBack { id: "1".to_owned(), at: later(now, 10) };
        let all = Quota::Taken.limit();
        let entries = [won, told, took("1", all, now), back, took("2", all, later(now, 10))];
        entries.iter().for_each(|entry| self.callers[CONSUMER].note(entry));
    }
}

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

fn later(time: Timestamp, seconds: u64) -> Timestamp {
    time.plus(Duration::from_secs(seconds))
}

fn locked(number: u64, since: Timestamp) -> Entry {
    Entry::Locked { lock: 0, fence: fence(number), since }
}

fn took(id: &str, units: i64, from: Timestamp) -> Entry {
    Entry::Took { id: id.to_owned(), quota: Quota::Taken, units, from, until: later(from, 30) }
}

impl Evidence {
    fn bumps(&mut self) -> &mut Vec<StoredEvent> {
        self.claim_audit.as_mut().unwrap().bumps.get_mut(&0).unwrap()
    }
}

#[test]
fn a_late_write_under_a_lock_is_found() {
    let late = |evidence: &mut Evidence| {
        let mut event = evidence.bumps()[0].clone();
        event.payload = RawJson::new(&Bump { fence: fence(1), total: 2 }).unwrap();
        event.recorded_at = later(event.recorded_at, 1);
        evidence.bumps().insert(1, event);
    };
    assert_eq!(
        found(late),
        BTreeSet::from([Kind::WrittenThoughRefused, Kind::WrongTotal, Kind::Overlap])
    );
    let overlapping = |evidence: &mut Evidence| {
        let at = evidence.bumps()[0].recorded_at;
        evidence.bumps()[0].recorded_at = later(at, 1);
    };
    assert_eq!(found(overlapping), BTreeSet::from([Kind::Overlap]));
}

#[test]
fn a_write_under_a_lock_that_is_lost_is_found() {
    let doctor = |evidence: &mut Evidence| drop(evidence.bumps().pop());
    assert_eq!(found(doctor), BTreeSet::from([Kind::LostCommit]));
}

#[test]
fn a_lock_or_a_key_with_two_holders_is_found() {
    for entry in [
        locked(1, Timestamp::from_micros(1).unwrap()),
        Entry::Won { key: KEY.into(), fence: fence(1) },
    ] {
        let kinds = found(|evidence| evidence.entries(CONSUMER).push(entry));
        assert_eq!(kinds, BTreeSet::from([Kind::Overlap]));
    }
}

#[test]
fn a_key_with_two_results_is_found() {
    let twice = |evidence: &mut Evidence| {
        let completions = &mut evidence.claim_audit.as_mut().unwrap().completions;
        completions.push(completions[0].clone());
    };
    assert_eq!(found(twice), BTreeSet::from([Kind::DoneTwice]));
    let another = Entry::Receipt { key: KEY.to_owned(), result: "paid again".to_owned() };
    let told = |evidence: &mut Evidence| evidence.entries(DEAD).push(another);
    assert_eq!(found(told), BTreeSet::from([Kind::Contradiction]));
}

#[test]
fn a_quota_that_is_exceeded_is_found() {
    let doctor = |evidence: &mut Evidence| {
        evidence.entries(CONSUMER).retain(|entry| !matches!(entry, Entry::GivesBack { .. }));
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::Exceeded]));
}

#[test]
fn what_is_never_released_is_found() {
    let doctor = |evidence: &mut Evidence| {
        evidence.claim_audit.as_mut().unwrap().stuck.push("lock 0".to_owned());
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::StuckLease]));
}
