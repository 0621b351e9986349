//! Corrupted evidence about runs: one sample run whose first holder died.

use std::collections::BTreeSet;

use serde_json::json;
use tidelock::ExpectedVersion;
use tidelock::store::{
    Bounds, Commit, NewEvent, RawJson, RecordWrite, Store, StoreExt, StoredEvent, StreamName,
};

use super::sample::{COMMITTER, CONSUMER, DEAD, Sample};
use super::{Evidence, assert_found, found};
use crate::finding::Kind;
use crate::journal::Entry;
use crate::sample_run::{CALL, COUNT, DONE, GO, NAP, SEND, THANK};

const RUN: &str = "sample-run";

impl Sample {
    /// A run that was taken over once, with one effect repeated.
    pub(super) async fn run(&self) {
        let run = self.space.run(RUN);
        self.callers[COMMITTER].note(&Entry::Ordered(run.clone()));
        self.callers[DEAD].note(&acted(&run, CALL));
        for step in [CALL, SEND, THANK] {
            self.callers[CONSUMER].note(&acted(&run, step));
        }
        self.callers[COMMITTER].note(&Entry::Told { run: run.clone(), result: DONE.to_owned() });
        let count =
            Commit::new().write(RecordWrite::add(&self.space.counted(&run), 1, Bounds::NONE));
        self.store.commit(count).await.unwrap().committed().unwrap();
        let stream = StreamName::new(format!("{}{RUN}", self.space.histories())).unwrap();
        let appended = self.store.append(&stream, ExpectedVersion::NoStream, history()).await;
        appended.unwrap().committed().unwrap();
    }
}

fn acted(run: &str, step: &str) -> Entry {
    Entry::Acted { run: run.to_owned(), step: step.to_owned(), key: format!("{run}:{step}") }
}

fn history() -> Vec<NewEvent> {
    let done = |step: &str| ("~step", json!({ "name": step, "result": DONE }));
    let entries = [
        ("~started", json!({})),
        ("~taken-over", json!({ "fence": 2 })),
        done(CALL),
        ("~step", json!({ "name": COUNT, "result": null })),
        ("~intent", json!({ "name": SEND })),
        done(SEND),
        ("~fired", json!({ "name": NAP })),
        ("~received", json!({ "name": GO })),
        done(THANK),
        ("~completed", json!({ "result": DONE })),
    ];
    entries.iter().map(|(event_type, payload)| NewEvent::of(event_type, payload).unwrap()).collect()
}

impl Evidence {
    /// The run's entries.
    fn history(&mut self) -> &mut Vec<StoredEvent> {
        self.run_audit.as_mut().unwrap().histories.values_mut().next().unwrap()
    }

    /// The index of the first entry of this type about this name.
    fn place(&mut self, event_type: &str, what: &str) -> usize {
        let meant = |event: &StoredEvent| {
            event.event_type.as_str() == event_type && event.payload.as_str().contains(what)
        };
        self.history().iter().position(meant).unwrap()
    }
}

#[test]
fn a_run_that_is_lost_open_or_without_an_end_is_found() {
    let lost = |evidence: &mut Evidence| {
        let run = evidence.space.run("another");
        evidence.entries(COMMITTER).push(Entry::Ordered(run));
    };
    assert_eq!(found(lost), BTreeSet::from([Kind::Unfinished]));
    let open = |evidence: &mut Evidence| {
        evidence.run_audit.as_mut().unwrap().open.push("sample-run".into());
    };
    assert_eq!(found(open), BTreeSet::from([Kind::Unfinished]));
    let endless = |evidence: &mut Evidence| drop(evidence.history().pop());
    assert_eq!(found(endless), BTreeSet::from([Kind::Unfinished]));
}

#[test]
fn an_entry_after_the_end_of_a_run_is_found() {
    let late = |evidence: &mut Evidence| {
        let entry = evidence.history()[1].clone();
        evidence.history().push(entry);
    };
    assert_eq!(found(late), BTreeSet::from([Kind::AfterTheEnd]));
    let twice = |evidence: &mut Evidence| {
        let end = evidence.history().last().unwrap().clone();
        evidence.history().push(end);
    };
    assert_eq!(found(twice), BTreeSet::from([Kind::AfterTheEnd]));
}

#[test]
fn a_step_that_is_recorded_twice_is_found() {
    for step in [CALL, COUNT, SEND, THANK] {
        let doctor = |evidence: &mut Evidence| {
            let at = evidence.place("~step", step);
            let again = evidence.history()[at].clone();
            evidence.history().insert(at, again);
        };
        assert_eq!(found(doctor), BTreeSet::from([Kind::RecordedTwice]), "{step}");
    }
}

#[test]
fn a_step_in_the_store_that_is_there_twice_or_not_at_all_is_found() {
    for count in [0, 2] {
        let doctor = |evidence: &mut Evidence| {
            *evidence.run_audit.as_mut().unwrap().counted.values_mut().next().unwrap() = count;
        };
        assert_eq!(found(doctor), BTreeSet::from([Kind::WrongTotal]));
    }
}

#[test]
fn a_step_that_was_not_done_or_under_another_key_is_found() {
    for step in [CALL, SEND, THANK] {
        let undone = |evidence: &mut Evidence| {
            for who in [DEAD, CONSUMER] {
                evidence
                    .entries(who)
                    .retain(|entry| !matches!(entry, Entry::Acted { step: s, .. } if s == step));
            }
        };
        assert_eq!(found(undone), BTreeSet::from([Kind::WrongEffect]), "{step}");
    }
    let renamed = |evidence: &mut Evidence| {
        let key = evidence.last(DEAD, |entry| match entry {
            Entry::Acted { key, .. } => Some(key),
            _ => None,
        });
        key.push_str(" again");
    };
    assert_eq!(found(renamed), BTreeSet::from([Kind::WrongEffect]));
}

#[test]
fn a_step_that_must_not_be_done_twice_and_was_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let again = acted(&evidence.space.run(RUN), SEND);
        evidence.entries(DEAD).push(again);
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::DoneTwice]));
}

#[test]
fn a_step_of_a_run_that_is_not_there_is_found() {
    assert_found(Kind::Unexplained, |evidence| {
        let strange = acted(&evidence.space.run("another"), CALL);
        evidence.entries(DEAD).push(strange);
    });
}

#[test]
fn a_result_that_is_not_the_one_that_is_recorded_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let end = evidence.history().last_mut().unwrap();
        end.payload = RawJson::new(&json!({ "result": "another" })).unwrap();
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::Contradiction]));
}
