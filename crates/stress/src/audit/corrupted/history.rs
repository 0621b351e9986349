//! Corrupted evidence in which the checkers of histories find anomalies.

use tidelock::Timestamp;
use tidelock::store::Version;

use super::sample::{COMMITTER, CONSUMER, DEAD, FOLLOWER};
use super::{Evidence, findings};
use crate::finding::Kind;
use crate::journal::Entry;

/// Asserts that the checkers of histories find this anomaly.
#[track_caller]
fn assert_anomaly(anomaly: &str, doctor: impl FnOnce(&mut Evidence)) {
    let findings = findings(doctor);
    let mut anomalies = findings.iter().filter(|finding| finding.kind == Kind::Anomaly);
    let is_found = anomalies.any(|finding| finding.what.starts_with(&format!("{anomaly}: ")));
    assert!(is_found, "{anomaly:?} is not in {findings:#?}");
}

#[test]
fn anomalies_of_commits_are_found() {
    assert_anomaly("lost event", |evidence| {
        evidence.remove_event(1);
        evidence.remove_event(2);
    });
    assert_anomaly("contradiction", |evidence| {
        let again = evidence
            .last(COMMITTER, |entry| matches!(entry, Entry::Acked { .. }).then(|| entry.clone()));
        let Entry::Acked { id, mut committed } = again else { unreachable!() };
        committed.appends[0].version = Version::new(9).unwrap();
        let now = committed.at;
        let again = [Entry::Again { id, now }, Entry::Acked { id, committed }];
        evidence.entries(COMMITTER).extend(again);
    });
}

#[test]
fn an_answer_that_no_order_explains_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let write = evidence.last(COMMITTER, |entry| match entry {
            Entry::Acked { committed, .. } => committed.writes.first_mut(),
            _ => None,
        });
        write.sum = Some(7);
    };
    assert_anomaly("not linearizable", doctor);
}

#[test]
fn a_stream_against_real_time_is_found() {
    // The first commit begins and ends after all others, as the clock has it.
    let doctor = |evidence: &mut Evidence| {
        let moments = evidence.entries(COMMITTER).iter_mut().filter_map(|entry| match entry {
            Entry::Now(moment) => Some(moment),
            _ => None,
        });
        moments.take(2).for_each(|moment| *moment += 1 << 60);
    };
    assert_anomaly("not linearizable", doctor);
    assert_anomaly("position in the past", doctor);
}

#[test]
fn anomalies_of_the_feed_are_found() {
    let seen = |evidence: &mut Evidence, doctor: fn(&mut Vec<tidelock::store::StoredEvent>)| {
        doctor(evidence.last(FOLLOWER, |entry| match entry {
            Entry::Seen(events) => Some(events),
            _ => None,
        }));
    };
    assert_anomaly("follower skips", |evidence| seen(evidence, |events| drop(events.remove(1))));
    assert_anomaly("feed out of order", |evidence| seen(evidence, |events| events.swap(0, 1)));
    assert_anomaly("event twice in the feed", |evidence| {
        let again = evidence.feed[0].clone();
        evidence.feed.push(again);
    });
}

#[test]
fn anomalies_of_leases_and_locks_are_found() {
    assert_anomaly("two holders", |evidence| {
        let at = evidence.last(CONSUMER, |entry| match entry {
            Entry::Held { at, lease, .. } if lease.expiries > 0 => Some(at),
            _ => None,
        });
        *at = Timestamp::from_micros(at.micros() - 1).unwrap();
    });
    assert_anomaly("number reused", |evidence| {
        let grant = evidence
            .last(CONSUMER, |entry| matches!(entry, Entry::Held { .. }).then(|| entry.clone()));
        evidence.entries(DEAD).extend([Entry::Now(1), grant]);
    });
}

#[test]
fn anomalies_of_reactions_runs_and_scopes_are_found() {
    assert_anomaly("landed twice", |evidence| {
        let handled = evidence.reaction_audit.as_mut().unwrap().handled.values_mut().next();
        let events = handled.unwrap();
        let again = events[0].clone();
        events.push(again);
    });
    assert_anomaly("ended twice", |evidence| {
        let run = evidence.run_audit.as_ref().unwrap().histories.keys().next().unwrap().clone();
        let result = "another".to_owned();
        evidence.entries(DEAD).push(Entry::Told { run, result });
    });
    assert_anomaly("not linearizable", |evidence| {
        let boards = evidence.boards.as_mut().unwrap();
        boards.get_mut(&0).unwrap().0.pushed.swap(0, 1);
    });
}

#[test]
fn anomalies_of_claims_are_found() {
    assert_anomaly("two results", |evidence| {
        let result =
            evidence.journals.iter_mut().flat_map(|(_, entries)| entries).find_map(|entry| {
                match entry {
                    Entry::Receipt { result, .. } => Some(result),
                    _ => None,
                }
            });
        result.unwrap().push_str(" or not");
    });
    assert_anomaly("quota exceeded", |evidence| {
        let took =
            evidence.journals.iter_mut().flat_map(|(_, entries)| entries).find_map(|entry| {
                match entry {
                    Entry::Took { units, .. } => Some(units),
                    _ => None,
                }
            });
        *took.unwrap() = 100;
    });
}
