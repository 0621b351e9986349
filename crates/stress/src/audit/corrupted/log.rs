//! Corrupted evidence about streams, the feed, and counters.

use std::collections::BTreeSet;

use tidelock::store::StoredEvent;

use super::sample::{COMMITTER, FOLLOWER};
use super::{assert_found, found};
use crate::evidence::Evidence;
use crate::finding::Kind;
use crate::journal::Entry;

fn seen(entry: &mut Entry) -> Option<&mut Vec<StoredEvent>> {
    match entry {
        Entry::Seen(events) => Some(events),
        _ => None,
    }
}

#[test]
fn an_event_that_no_worker_wrote_is_found() {
    assert_found(Kind::Unexplained, |evidence| {
        let first = evidence.entries(COMMITTER).iter().position(|e| matches!(e, Entry::Try(_)));
        evidence.entries(COMMITTER).remove(first.unwrap());
    });
}

#[test]
fn an_event_that_is_there_twice_is_found() {
    assert_found(Kind::DoubledEvent, |evidence| {
        let mut again = evidence.feed[0].clone();
        again.position = evidence.feed.last().unwrap().position.plus(1);
        evidence.feed.push(again);
    });
}

#[test]
fn a_feed_that_is_not_what_the_streams_are_is_found() {
    assert_found(Kind::FeedDiffers, |evidence| evidence.feed.swap(0, 1));
    assert_found(Kind::FeedDiffers, |evidence| drop(evidence.work().pop()));
}

#[test]
fn an_event_that_the_follower_never_saw_is_found() {
    let doctor = |evidence: &mut Evidence| drop(evidence.last(FOLLOWER, seen).remove(1));
    assert_eq!(found(doctor), BTreeSet::from([Kind::SkippedInFeed]));
}

#[test]
fn a_counter_that_is_not_the_sum_of_the_commits_is_found() {
    let doctor = |evidence: &mut Evidence| *evidence.totals.values_mut().next().unwrap() += 1;
    assert_eq!(found(doctor), BTreeSet::from([Kind::WrongTotal]));
}
