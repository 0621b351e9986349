//! Records, streams, scopes and rights that no sequential object could have answered for.

use super::bad::{Bad, bad as shows};
use super::script::{
    Absent, Any, Exactly, Script, add, append, appending, at, event, fenced, live, plus, put,
    settled, writing,
};
use super::{assert_correct, report};
use crate::history::{
    Action, Answer, Change, Expiry, Found, Outcome, Part, PartAnswer, Slot, StreamRead, list_value,
};

pub(super) fn bad() -> Vec<Bad> {
    [records(), streams(), scopes(), rights(), numbers()].into_iter().flatten().collect()
}

const NOT: &str = "not linearizable";

fn records() -> Vec<Bad> {
    vec![
        shows(NOT, "a stale read of a record", |s| {
            s.commit(1..2, [put("k", Any, "x", 1)]).commit(3..4, [put("k", Any, "y", 2)]);
            s.get(5..6, [("k", live(1, "x"))]);
        }),
        shows(NOT, "two reads that see two writes in two orders", |s| {
            s.commit(1..20, [put("k", Any, "x", 1)]).commit(2..20, [put("k", Any, "y", 2)]);
            s.get(3..4, [("k", live(2, "y"))]).get(5..6, [("k", live(1, "x"))]);
        }),
        shows(NOT, "a value that was never written", |s| {
            s.commit(1..2, [put("k", Any, "x", 1)]).get(3..4, [("k", live(1, "z"))]);
        }),
        shows(NOT, "a sum without one of its additions", |s| {
            s.commit(1..2, [add("k", 1, 1, 1)]).commit(3..4, [add("k", 1, 2, 1)]);
        }),
        shows(NOT, "a draw past the burst of its rate", |s| {
            s.commit(1..2, [draw(1, 100, 115)]).commit(3..4, [draw(2, 100, 215)]);
        }),
        shows(NOT, "a draw that replenished what was drawn before", |s| {
            s.commit(1..2, [draw(1, 200, 115)]).commit(8..9, [draw(2, 200, 185)]);
        }),
        shows(NOT, "a write that expected what was not there", |s| {
            s.commit(1..2, [put("k", Absent, "x", 1)]).commit(3..4, [put("k", Absent, "y", 2)]);
        }),
        shows(NOT, "an expired record that is read", |s| {
            s.commit(1..2, [expiring("k", 30)]);
            let slot = Slot::Live { revision: 1, value: "x".to_owned(), expires: Some(30) };
            s.get(4..5, [("k", slot)]);
        }),
        shows(NOT, "a record that is gone before it expires", |s| {
            s.commit(1..2, [expiring("k", 90)]).get(4..5, [("k", Slot::Deleted(1))]);
        }),
        shows(NOT, "a revision that was skipped", |s| {
            s.commit(1..2, [put("k", Any, "x", 1)]).commit(3..4, [put("k", Any, "y", 3)]);
        }),
        shows(NOT, "revisions that were skipped by a write of unknown outcome", |s| {
            s.commit(1..2, [put("k", Any, "x", 1)]);
            s.unknown("", 3, &[writing("k", Any, Change::Put("y".to_owned()))]);
            s.get(9..10, [("k", live(5, "y"))]);
        }),
        shows(NOT, "a refusal on what was not there", |s| {
            s.commit(1..2, [put("k", Any, "x", 1)]);
            let part = writing("k", Exactly(5), Change::Delete);
            s.refused("", 3..4, &[part], 0, Found::Slot(live(2, "y")));
        }),
        shows(NOT, "a part that did not hold and was not named", |s| {
            s.commit(1..2, [put("k", Any, "x", 1)]);
            let parts = [writing("k", Exactly(7), Change::Delete), appending("s", Exactly(3), "a")];
            s.refused("", 3..4, &parts, 1, Found::Stream { version: None, closed: false });
        }),
        shows(NOT, "a write of unknown outcome that took effect twice", |s| {
            s.commit(1..2, [add("k", 1, 1, 1)]);
            s.unknown("", 3, &[writing("k", Any, plus(5))]);
            s.commit(4..5, [add("k", 1, 3, 7)]).commit(6..7, [add("k", 1, 5, 13)]);
        }),
    ]
}

fn expiring(key: &str, at: i64) -> (Part, PartAnswer) {
    let (mut part, answer) = put(key, Any, "x", 1);
    if let Part::Write { expires, .. } = &mut part {
        *expires = Some(Expiry::At(at));
    }
    (part, answer)
}

/// A draw of a hundred on a rate, with the revision and the value that it made.
fn draw(revision: u64, burst: i64, full_at: i64) -> (Part, PartAnswer) {
    let change = Change::Rate { cost: 100, burst };
    let answer = PartAnswer::Written { revision: Some(revision), sum: Some(full_at) };
    (writing("k", Any, change), answer)
}

fn streams() -> Vec<Bad> {
    vec![
        shows(NOT, "a stale read of a stream", |s| {
            s.commit(1..2, [append("s", Absent, "a", (1, 1, 1))]);
            s.commit(3..4, [append("s", Any, "b", (2, 2, 2))]).read(5..6, "s", ["a s 1 1"]);
        }),
        shows(NOT, "two creators", |s| {
            s.commit(1..4, [append("s", Absent, "a", (1, 1, 1))]);
            s.commit(2..3, [append("s", Absent, "b", (2, 2, 2))]);
        }),
        shows(NOT, "an append to a closed stream", |s| {
            s.commit(1..2, [closing("s", "a", 1)]);
            s.commit(3..4, [append("s", Any, "b", (2, 2, 2))]);
        }),
        shows(NOT, "a version that was skipped", |s| {
            s.commit(1..2, [append("s", Any, "a", (1, 1, 1))]);
            s.commit(3..4, [append("s", Any, "b", (3, 2, 2))]);
        }),
        shows(NOT, "a trim of an open stream", |s| {
            s.commit(1..2, [append("s", Any, "a", (1, 1, 1))]).commit(3..4, [trim("s", 1)]);
        }),
        shows(NOT, "an acknowledged append that is not there at the end", |s| {
            s.commit(1..2, [append("s", Any, "a", (1, 1, 1))]).ends("s", []);
        }),
    ]
}

fn closing(stream: &str, id: &str, version: u64) -> (Part, PartAnswer) {
    let (mut part, answer) = append(stream, Any, id, (version, version, version));
    if let Part::Append { close, .. } = &mut part {
        *close = true;
    }
    (part, answer)
}

fn trim(stream: &str, through: u64) -> (Part, PartAnswer) {
    let stream = stream.to_owned();
    (Part::Trim { stream, through, reopen: true, forget: false }, PartAnswer::Held)
}

fn scopes() -> Vec<Bad> {
    vec![
        shows(NOT, "a lost mutation", |s| {
            s.mutate(1..2, ("scope", ""), plus(1), (1, "1"));
            s.mutate(3..4, ("scope", ""), plus(1), (2, "1"));
        }),
        shows(NOT, "an operation that took effect twice", |s| {
            s.mutate(1..2, ("scope", "id"), plus(1), (1, "1"));
            s.mutate(3..4, ("scope", "id"), plus(1), (1, "1"));
            s.mutate(5..6, ("scope", ""), plus(1), (3, "3"));
        }),
        shows(NOT, "a list that lost an element", |s| {
            s.mutate(1..2, ("list", ""), Change::Push("a".to_owned()), (1, "1"));
            s.mutate(3..4, ("list", ""), Change::Push("b".to_owned()), (2, "2"));
            let value = list_value::of(["a", "c"]).unwrap();
            s.audit.scopes.insert("list".to_owned(), live(2, &value));
        }),
    ]
}

fn rights() -> Vec<Bad> {
    vec![
        shows(NOT, "a lock that is granted while it is held", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..100);
            s.acquire(3..4, "two", ("lock", 2), 35..100);
        }),
        shows(NOT, "a renewal by the holder before", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..30);
            s.acquire(4..5, "two", ("lock", 2), 45..90).renew(6..7, ("lock", 1), 120);
        }),
        shows(NOT, "a write after the release", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..90).release(3..4, ("lock", 1), None);
            s.commit(5..6, [put("k", Any, "x", 1), fenced("lock", 1)]);
        }),
        shows(NOT, "a fence that goes back", |s| {
            s.acquire(1..2, "one", ("lock", 5), 15..20);
            s.acquire(3..4, "two", ("lock", 4), 35..50);
        }),
        shows(NOT, "a result that was never made", |s| {
            s.acquire(1..2, "one", ("key", 1), 15..90);
            s.release(3..4, ("key", 1), Some("done")).find_result(5..6, "key", "failed");
        }),
    ]
}

fn numbers() -> Vec<Bad> {
    vec![
        shows("number reused", "a position", |s| {
            s.commit(1..2, [append("s", Any, "a", (1, 7, 7))]);
            s.commit(3..4, [append("t", Any, "b", (1, 7, 7))]);
        }),
        shows("number reused", "a version", |s| {
            s.read(1..2, "s", ["a s 1 1"]).read(3..4, "s", ["b s 1 2"]);
        }),
        shows("number reused", "a revision", |s| {
            s.commit(1..2, [put("k", Any, "x", 1)]).commit(3..4, [put("k", Any, "y", 1)]);
        }),
        shows("number reused", "a fence", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..20);
            s.acquire(3..4, "two", ("lock", 1), 35..50);
        }),
        shows("event in two places", "of one stream", |s| {
            s.read(1..2, "s", ["a s 1 1", "a s 2 2"]);
        }),
        shows("event in two places", "of two streams", |s| {
            s.commit(1..2, [append("s", Any, "a", (1, 1, 1))]).read(3..4, "t", ["a t 1 2"]);
        }),
        shows("gap in a stream", "in a page", |s| {
            s.read(1..2, "s", ["a s 1 1", "c s 3 3"]);
        }),
        shows("gap in a stream", "a page that ends too early", |s| {
            let events = vec![event("a s 1 1")];
            let read = StreamRead { events, end: true, version: Some(2), closed: false };
            let action = Action::ReadStream { stream: "s".to_owned(), after: 0 };
            s.op(1..2, action, Outcome::Done(Answer::Stream(read)));
        }),
    ]
}

#[test]
fn concurrent_operations_may_take_effect_in_any_order() {
    let mut script = Script::default();
    script.commit(1..9, [put("k", Any, "x", 2)]).commit(2..8, [put("k", Any, "y", 1)]);
    script.get(3..4, [("k", Slot::Absent)]).get(5..6, [("k", live(1, "y"))]);
    script.get(6..10, [("k", live(1, "y"))]).get(11..12, [("k", live(2, "x"))]);
    assert_correct(&script);
}

#[test]
fn an_unknown_outcome_may_take_effect_late_or_never() {
    for (revision, sum) in [(2, 2), (3, 7)] {
        let mut script = Script::default();
        script.commit(1..2, [add("k", 1, 1, 1)]);
        script.unknown("", 3, &[writing("k", Any, plus(5))]);
        script.get(4..5, [("k", live(1, "1"))]).commit(6..7, [add("k", 1, revision, sum)]);
        assert_correct(&script);
    }
}

/// A server that is restarted twice in a second begins an epoch each time.
#[test]
fn revisions_continue_in_another_epoch() {
    let mut script = Script::default();
    let (first, second) = (1_795_052_697_048_538, 1_795_052_697_832_373);
    script.commit(1..2, [add("k", 1, 1, 1)]).commit(3..4, [add("k", 1, first, 2)]);
    script.commit(5..6, [add("k", 1, first + 1, 3)]).commit(7..8, [add("k", 1, second, 4)]);
    assert_correct(&script);
    script.unknown("", 9, &[writing("k", Any, plus(1))]);
    script.get(11..12, [("k", live(second + 900_000, "5"))]);
    assert_correct(&script);
}

#[test]
fn many_unknown_outcomes_are_still_decided() {
    let mut script = Script::default();
    for nth in 0..40 {
        script.unknown("", nth, &[writing("k", Any, Change::Put(format!("lost {nth}")))]);
    }
    for revision in 1..=100 {
        let begun = 50 + revision * 2;
        script.commit(begun..begun + 1, [put("k", Any, "x", revision)]);
    }
    script.get(400..401, [("k", live(100, "x"))]);
    assert_correct(&script);
}

/// A wait queue: clients put their names, some without an answer, and others wait until it is free.
#[test]
fn unknown_outcomes_before_a_guard_are_decided() {
    let mut script = Script::default();
    script.commit(1..2, [expiring("k", 30)]);
    for nth in 0..40 {
        let name = Change::Put(format!("waiter {nth}"));
        script.unknown("", 3 + nth, &[writing("k", Any, name), guarding("other")]);
    }
    script.commit(50..51, [(guarding("k"), PartAnswer::Held), put("l", Any, "x", 1)]);
    script.commit(60..61, [(guarding("other"), PartAnswer::Held), put("l", Any, "x", 2)]);
    assert_correct(&script);
}

/// Any half of them may have taken effect, in any order.
#[test]
fn unknown_outcomes_that_were_overwritten_are_decided() {
    let mut script = Script::default();
    script.commit(0..1, [put("k", Any, "first", 1)]);
    for nth in 0..12 {
        script.unknown("", 2 + nth, &[writing("k", Any, Change::Put(format!("lost {nth}")))]);
    }
    let mut possible = script.clone();
    possible.get(20..21, [("k", live(6, "lost 3"))]).get(22..23, [("k", live(9, "lost 1"))]);
    assert_correct(&possible);
    for (revision, value) in [(6, "never written"), (14, "lost 3")] {
        let mut impossible = script.clone();
        impossible.get(20..21, [("k", live(revision, value))]);
        assert_eq!(report(&impossible).anomalies(), [NOT].into(), "{revision} {value}");
    }
}

fn guarding(key: &str) -> Part {
    Part::GuardRecord { key: key.to_owned(), expected: Absent }
}

#[test]
fn draws_on_a_rate_are_replenished() {
    let mut script = Script::default();
    script.commit(1..2, [draw(1, 200, 115)]).commit(3..4, [draw(2, 200, 215)]);
    script.commit(8..9, [draw(3, 250, 315)]).commit(40..41, [draw(4, 100, 505)]);
    script.unknown("", 42, &[draw(0, 200, 0).0]);
    let slot = Slot::Live { revision: 5, value: "605".to_owned(), expires: Some(605) };
    script.get(50..51, [("k", slot)]);
    assert_correct(&script);
}

#[test]
fn records_expire_and_begin_again_at_a_higher_revision() {
    let mut script = Script::default();
    script.commit(1..2, [expiring("k", 30)]).get(2..4, [("k", Slot::Deleted(1))]);
    script.get(5..6, [("k", Slot::Absent)]).commit(7..8, [put("k", Absent, "y", 9)]);
    script.commit(9..10, [put("k", Exactly(9), "z", 10)]);
    script.commit(11..12, [put("k", Exactly(10), "a", 5_000_000)]);
    assert_correct(&script);
}

#[test]
fn streams_are_closed_trimmed_and_reopened() {
    let mut script = Script::default();
    script.commit(1..2, [append("s", Absent, "a b", (2, 1, 2))]);
    script.commit(3..4, [append("s", Exactly(2), "c", (3, 3, 3))]);
    script.commit(5..6, [closing("s", "d", 4)]);
    script.refused(
        "",
        7..8,
        &[appending("s", Any, "e")],
        0,
        Found::Stream { version: Some(4), closed: true },
    );
    script.commit(9..10, [trim("s", 4)]).commit(11..12, [append("s", Exactly(4), "f", (5, 5, 5))]);
    script.refused("", 13..14, &[appending("s", Exactly(1), "g")], 0, at(5));
    script.read(15..16, "s", ["f s 5 5"]);
    assert_correct(&script);
}

#[test]
fn rights_are_handed_on_when_they_expire_or_end() {
    let mut script = Script::default();
    script.acquire(1..2, "one", ("lock", 1), 15..30).renew(2..3, ("lock", 1), 40);
    script.commit(3..4, [put("k", Any, "x", 1), fenced("lock", 1)]);
    script.acquire(5..6, "two", ("lock", 2), 55..900);
    script.commit(7..8, [put("k", Any, "y", 2), settled("lock", 2)]);
    script.acquire(9..10, "three", ("lock", 7), 95..900);
    script.release(11..12, ("lock", 7), Some("done")).find_result(13..14, "lock", "done");
    assert_correct(&script);
}

#[test]
fn a_mutation_under_an_id_takes_effect_once() {
    let mut script = Script::default();
    script.mutate(1..2, ("scope", "id"), plus(1), (1, "1"));
    script.mutate(3..4, ("scope", ""), plus(2), (2, "3"));
    script.mutate(5..6, ("scope", "id"), plus(1), (1, "1"));
    script.mutate(1..7, ("list", ""), Change::Push("a".to_owned()), (1, "1"));
    script.mutate(2..7, ("list", ""), Change::Push("b".to_owned()), (2, "2"));
    let list = list_value::of(["a", "b"]).unwrap();
    script.audit.scopes.insert("list".to_owned(), live(2, &list));
    script.audit.scopes.insert("scope".to_owned(), live(2, "3"));
    assert_correct(&script);
}
