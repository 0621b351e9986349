//! Contradictory answers, and commits that landed by half.

use super::assert_correct;
use super::bad::{Bad, bad as shows};
use super::script::{Absent, Any, Script, append, appending, at, live, put, writing};
use crate::history::{Change, Found};

pub(super) fn bad() -> Vec<Bad> {
    vec![
        shows("contradiction", "two answers", |s| {
            s.commit_as("id", 1..2, [put("k", Any, "x", 1)]);
            s.commit_as("id", 3..4, [put("k", Any, "x", 2)]);
        }),
        shows("contradiction", "refused after it landed", |s| {
            s.commit_as("id", 1..2, [append("s", Absent, "a", (1, 1, 1))]);
            s.refused("id", 3..4, &[appending("s", Absent, "a")], 0, at(1));
        }),
        shows("half a commit", "of two streams one is there", |s| {
            s.unknown("id", 1, &[appending("s", Any, "a"), appending("t", Any, "b")]);
            s.feed(["a s 1 1"]);
        }),
        shows("half a commit", "of two events the first is there", |s| {
            s.unknown("", 1, &[appending("s", Any, "a b")]);
            s.feed(["a s 1 1"]);
        }),
        shows("refused though it holds", "an append at its version", |s| {
            s.commit(1..2, [append("s", Absent, "a", (1, 1, 1))]);
            s.refused("", 3..4, &[appending("s", super::script::Exactly(1), "b")], 0, at(1));
        }),
        shows("refused though it holds", "an append whose events are there", |s| {
            s.unknown("", 1, &[appending("s", Absent, "a")]);
            s.refused("", 3..4, &[appending("s", Absent, "a")], 0, at(2))
                .feed(["a s 1 1", "b s 2 2"]);
        }),
        shows("refused though it holds", "an addition within its bounds", |s| {
            let change = Change::Add { delta: 1, min: None, max: Some(5) };
            s.refused("", 1..2, &[writing("k", Any, change)], 0, Found::Sum(4));
        }),
        shows("refused though it holds", "a write of what is not there", |s| {
            let found = Found::Slot(crate::history::Slot::Absent);
            s.refused("", 1..2, &[writing("k", Absent, Change::Delete)], 0, found);
        }),
    ]
}

#[test]
fn a_commit_that_was_sent_again_is_one_commit() {
    let mut script = Script::default();
    script.unknown("id", 1, &[appending("s", Absent, "a")]);
    script.commit_as("id", 5..6, [append("s", Absent, "a", (1, 1, 1))]);
    // It landed with the first send already.
    script.read(3..4, "s", ["a s 1 1"]).feed(["a s 1 1"]);
    script.unknown("other", 7, &[writing("k", Any, Change::Put("x".to_owned()))]);
    script.get(8..9, [("k", live(1, "x"))]);
    assert_correct(&script);
}

#[test]
fn a_read_before_the_first_send_of_a_commit_does_not_see_it() {
    let mut script = Script::default();
    script.get(1..2, [("k", live(1, "x"))]);
    script.unknown("id", 3, &[writing("k", Any, Change::Put("x".to_owned()))]);
    script.commit_as("id", 5..6, [put("k", Any, "x", 1)]);
    assert!(super::report(&script).anomalies().contains("not linearizable"));
}

#[test]
fn an_unknown_outcome_is_decided_by_the_final_feed() {
    let mut script = Script::default();
    script.unknown("", 1, &[appending("s", Any, "a b")]);
    script.unknown("", 2, &[appending("s", Any, "c")]);
    script.read(5..6, "s", ["a s 1 1", "b s 2 2"]).feed(["a s 1 1", "b s 2 2"]);
    script.ends("s", ["a s 1 1", "b s 2 2"]);
    assert_correct(&script);
}
