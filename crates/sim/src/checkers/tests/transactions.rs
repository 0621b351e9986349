//! Anomalies between transactions.

use super::assert_correct;
use super::bad::{Bad, bad as shows};
use super::script::{Absent, Any, Exactly, Script, append, appending, at, guard, live, put};
use crate::history::{Action, Commit, Outcome, Part, PartAnswer, Slot};

/// Two commits, each of which writes what the other only read.
pub(super) fn write_skew() -> Script {
    let mut script = Script::default();
    script.commit(1..4, [guard("x", Absent), append("y", Absent, "a", (1, 1, 1))]);
    script.commit(2..3, [guard("y", Absent), append("x", Absent, "b", (1, 2, 2))]);
    script
}

pub(super) fn bad() -> Vec<Bad> {
    let bad = [dirty(), cyclic(), real_time(), lost()];
    bad.into_iter().flatten().collect()
}

fn dirty() -> Vec<Bad> {
    vec![
        shows("G1a", "a read of a refused commit", |s| {
            s.refused("", 1..2, &[appending("s", Exactly(4), "a")], 0, at(1));
            s.read(3..4, "s", ["a s 1 1"]);
        }),
        shows("G1a", "a follower of a failed commit", |s| {
            let action = Action::Commit(Commit { id: None, parts: vec![appending("s", Any, "a")] });
            s.op(1..2, action, Outcome::Failed("full".to_owned()));
            s.page(3..4, "f", (0, 1), ["a s 1 1"]);
        }),
        shows("G1b", "a read in the middle of an append", |s| {
            s.commit(1..4, [append("s", Any, "a b", (2, 1, 2))]).read(2..3, "s", ["a s 1 1"]);
        }),
        shows("G1b", "a refusal in the middle of an append", |s| {
            s.commit(1..4, [append("s", Any, "a b c", (3, 1, 3))]);
            s.refused("", 2..3, &[appending("s", Exactly(9), "d")], 0, at(2));
        }),
    ]
}

fn cyclic() -> Vec<Bad> {
    vec![
        shows("G0", "two commits on two streams in two orders", |s| {
            s.commit(1..4, [append("x", Any, "a", (1, 1, 1)), append("y", Any, "b", (2, 4, 4))]);
            s.commit(2..3, [append("y", Any, "c", (1, 2, 2)), append("x", Any, "d", (2, 3, 3))]);
        }),
        shows("G0", "three commits on a stream and two records", |s| {
            s.commit(1..9, [append("x", Any, "a", (1, 1, 1)), put("k", Any, "1", 2)]);
            s.commit(1..9, [append("x", Any, "b", (2, 2, 2)), put("l", Any, "1", 1)]);
            s.commit(1..9, [put("l", Any, "2", 2), put("k", Any, "2", 1)]);
        }),
        shows("G1c", "two commits that each saw the other", |s| {
            s.commit(1..4, [guard("x", Exactly(1)), append("y", Absent, "a", (1, 1, 1))]);
            s.commit(2..3, [guard("y", Exactly(1)), append("x", Absent, "b", (1, 2, 2))]);
        }),
        shows("G1c", "a commit that saw what followed it", |s| {
            s.commit(1..9, [append("x", Any, "a", (1, 1, 1)), guard("y", Exactly(1))]);
            s.commit(1..9, [append("x", Any, "b", (2, 2, 2)), append("y", Any, "c", (1, 3, 3))]);
        }),
        shows("G-single", "a read of half a commit", |s| {
            s.commit(1..9, [put("k", Any, "x", 1), put("l", Any, "x", 1)]);
            s.get(2..3, [("k", live(1, "x")), ("l", Slot::Absent)]);
        }),
        shows("G-single", "a guard on what was overwritten", |s| {
            s.commit(1..2, [append("x", Absent, "a", (1, 1, 1))]);
            s.commit(3..9, [append("x", Any, "b", (2, 2, 2)), append("y", Any, "c", (1, 3, 3))]);
            s.commit(3..9, [guard("x", Exactly(1)), append("y", Any, "d", (2, 4, 4))]);
        }),
        shows("G2", "write skew", |s| *s = write_skew()),
        shows("G2", "two reads that saw two writes in two orders", |s| {
            s.commit(1..9, [put("k", Any, "x", 1)]).commit(1..9, [put("l", Any, "x", 1)]);
            let absent = || Slot::Absent;
            s.get(1..9, [("k", live(1, "x")), ("l", absent())]);
            s.get(1..9, [("k", absent()), ("l", live(1, "x"))]);
        }),
    ]
}

fn real_time() -> Vec<Bad> {
    vec![
        shows("G0-realtime", "a write before one that had ended", |s| {
            s.commit(1..2, [append("x", Any, "a", (2, 2, 2))]);
            s.commit(3..4, [append("x", Any, "b", (1, 1, 1))]);
        }),
        shows("G0-realtime", "revisions against the clock", |s| {
            s.commit(1..2, [put("k", Any, "a", 2)]).commit(3..4, [put("k", Any, "b", 1)]);
        }),
        shows("G1c-realtime", "a read from the future", |s| {
            s.read(1..2, "x", ["a x 1 1"]).commit(3..4, [append("x", Any, "a", (1, 1, 1))]);
        }),
        shows("G1c-realtime", "a record from the future", |s| {
            s.get(1..2, [("k", live(1, "a"))]).commit(3..4, [put("k", Any, "a", 1)]);
        }),
        shows("G-single-realtime", "a stale read", |s| {
            s.commit(1..2, [append("x", Any, "a", (1, 1, 1))]).read(3..4, "x", []);
        }),
        shows("G-single-realtime", "a guard on what was overwritten before", |s| {
            s.commit(1..2, [put("k", Any, "a", 1)]).commit(3..4, [put("k", Any, "b", 2)]);
            s.get(5..6, [("k", live(1, "a"))]);
        }),
        shows("G2-realtime", "streams that are seen too late", |s| {
            s.commit(1..2, [append("y", Any, "a", (1, 1, 1))]);
            s.commit(1..9, [guard("y", Absent), append("x", Any, "b", (1, 2, 2))]);
            s.read(3..4, "x", []);
        }),
        shows("G2-realtime", "a record and a stream that are seen too late", |s| {
            s.commit(1..2, [put("k", Any, "a", 1)]);
            let on_k = Part::GuardRecord { key: "k".to_owned(), expected: Absent };
            s.commit(1..9, [(on_k, PartAnswer::Held), append("x", Any, "b", (1, 2, 2))]);
            s.commit(3..9, [guard("x", Absent), append("z", Any, "c", (1, 3, 3))]);
        }),
    ]
}

fn lost() -> Vec<Bad> {
    vec![
        shows("lost update", "of a record", |s| {
            s.commit(1..2, [put("k", Any, "a", 1)]);
            s.commit(3..9, [put("k", Exactly(1), "b", 2)]);
            s.commit(3..9, [put("k", Exactly(1), "c", 3)]);
        }),
        shows("lost update", "of a stream", |s| {
            s.commit(1..9, [append("x", Absent, "a", (1, 1, 1))]);
            s.commit(1..9, [append("x", Absent, "b", (2, 2, 2))]);
        }),
    ]
}

#[test]
fn serializable_transactions_have_no_cycle() {
    let mut script = Script::default();
    script.commit(1..4, [guard("x", Absent), append("y", Absent, "a", (1, 1, 1))]);
    script.commit(2..3, [guard("y", Exactly(1)), append("x", Absent, "b c", (2, 2, 3))]);
    script.read(3..9, "x", ["b x 1 2", "c x 2 3"]).read(2..9, "x", []);
    script.refused("", 4..5, &[appending("x", Absent, "d")], 0, at(2));
    script.commit(5..6, [put("k", Absent, "a", 1), put("l", Absent, "a", 1)]);
    script.get(5..7, [("k", live(1, "a")), ("l", live(1, "a"))]);
    assert_correct(&script);
}

#[test]
fn a_thousand_serial_transactions_have_no_cycle() {
    let mut script = Script::default();
    for nth in 0..1_000 {
        let key = ["k", "l", "m"][nth as usize % 3];
        script.commit(nth * 2..nth * 2 + 1, [put(key, Any, "x", nth / 3 + 1)]);
    }
    assert_correct(&script);
}
