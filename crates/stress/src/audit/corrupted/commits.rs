//! Corrupted evidence about commits and their answers.

use std::collections::BTreeSet;

use tidelock::ExpectedVersion;
use tidelock::store::{Commit, CommitId, Conflict};

use super::sample::{COMMITTER, LEASE, event};
use super::{assert_found, found};
use crate::evidence::Evidence;
use crate::finding::Kind;
use crate::journal::Entry;
use crate::trouble::Told;

fn acked(entry: &mut Entry) -> Option<&mut Entry> {
    matches!(entry, Entry::Acked { .. }).then_some(entry)
}

#[test]
fn an_acknowledged_commit_that_is_not_there_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let id = CommitId::fresh();
        let commit = Commit::new().with_id(id).append(
            &evidence.space.work(0),
            ExpectedVersion::Any,
            [event()],
        );
        let ack = evidence.last(COMMITTER, acked);
        let Entry::Acked { committed, .. } = ack.clone() else { unreachable!() };
        evidence.entries(COMMITTER).extend([Entry::Try(commit), Entry::Acked { id, committed }]);
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::LostCommit]));
}

#[test]
fn half_a_commit_is_found() {
    assert_found(Kind::HalfCommit, |evidence| evidence.remove_event(1));
}

#[test]
fn a_gap_in_the_versions_is_found() {
    assert_found(Kind::Gap, |evidence| evidence.remove_event(2));
}

#[test]
fn a_commit_that_was_refused_and_is_there_is_found() {
    assert_found(Kind::WrittenThoughRefused, |evidence| {
        let ack = evidence.last(COMMITTER, acked);
        let Entry::Acked { id, .. } = ack.clone() else { unreachable!() };
        let conflict = Conflict { violations: Vec::new() };
        *ack = Entry::Refused { id, kinds: Vec::new(), conflict };
    });
}

#[test]
fn two_answers_to_one_commit_are_found() {
    assert_found(Kind::Contradiction, |evidence| {
        let mut second = evidence.entries(COMMITTER).clone();
        second.retain(|entry| matches!(entry, Entry::Acked { .. }));
        for ack in &mut second {
            let Entry::Acked { committed, .. } = ack else { unreachable!() };
            committed.at = committed.at.plus(LEASE);
        }
        evidence.entries(COMMITTER).append(&mut second);
    });
}

#[test]
fn an_answer_that_says_another_place_is_found() {
    assert_found(Kind::Contradiction, |evidence| {
        let version = evidence.last(COMMITTER, |entry| match entry {
            Entry::Acked { committed, .. } => Some(&mut committed.appends[0].version),
            _ => None,
        });
        *version = version.plus(1);
    });
}

#[test]
fn an_error_that_said_that_nothing_was_written_and_was_wrong_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let trouble = evidence.last(COMMITTER, |entry| match entry {
            Entry::Failed { trouble, .. } => Some(trouble),
            _ => None,
        });
        trouble.advice = Told::Later;
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::BrokenPromise]));
}

#[test]
fn a_commit_that_was_never_resolved_is_found() {
    assert_found(Kind::Unresolved, |evidence| {
        evidence.entries(COMMITTER).retain(|entry| !matches!(entry, Entry::Acked { .. }));
    });
}
