//! Two holders, stale writes and overdrawn quotas.

use super::assert_correct;
use super::bad::{Bad, bad as shows};
use super::script::{Any, Script, fenced, put, settled};
use crate::history::{Action, Answer, Outcome};

fn refund(script: &mut Script, span: std::ops::Range<u64>, id: &str) {
    let action = Action::Refund { quota: "quota".to_owned(), id: id.to_owned() };
    let at = span.start as i64 * 10 + 5;
    script.op(span, action, Outcome::Done(Answer::Refunded { at }));
}

pub(super) fn bad() -> Vec<Bad> {
    vec![
        shows("two holders", "at once", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..100);
            s.acquire(3..4, "two", ("lock", 2), 35..100);
        }),
        shows("two holders", "in spite of a renewal", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..30).renew(2..3, ("lock", 1), 80);
            s.acquire(5..6, "two", ("lock", 2), 55..100);
        }),
        shows("two holders", "before the release", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..100);
            s.acquire(3..9, "two", ("lock", 2), 35..100).release(6..7, ("lock", 1), None);
        }),
        shows("stale write", "after the lock was handed on", |s| {
            s.acquire(1..2, "one", ("lock", 1), 15..30);
            s.acquire(4..5, "two", ("lock", 2), 45..100);
            s.commit(5..6, [put("k", Any, "x", 1), fenced("lock", 1)]);
        }),
        shows("stale write", "a settlement of a lost lease", |s| {
            s.acquire(1..2, "one", ("queue/item", 1), 15..30);
            s.acquire(4..5, "two", ("queue/item", 2), 45..100);
            s.acquire(6..7, "three", ("queue/item", 3), 105..200);
            s.commit(8..9, [put("k", Any, "x", 1), settled("queue/item", 1)]);
        }),
        shows("quota exceeded", "by two draws", |s| {
            s.take(1..2, "a", 2, 15..100).take(3..4, "b", 2, 35..100);
        }),
        shows("quota exceeded", "before a refund", |s| {
            s.take(1..2, "a", 3, 15..100).take(3..4, "b", 1, 35..100);
            refund(s, 5..6, "a");
        }),
    ]
}

#[test]
fn what_was_given_back_can_be_taken() {
    let mut script = Script::default();
    script.take(1..2, "a", 2, 15..100).take(3..4, "b", 1, 35..50).take(5..6, "c", 1, 55..100);
    refund(&mut script, 7..8, "a");
    script.take(9..10, "d", 2, 95..100).take(9..10, "d", 2, 95..100);
    script.acquire(1..2, "one", ("lock", 1), 15..100).release(3..4, ("lock", 1), None);
    script.acquire(4..5, "two", ("lock", 2), 45..100);
    assert_correct(&script);
}
