//! What must happen once and did not, and what was left over.

use super::assert_correct;
use super::bad::{Bad, bad as shows};
use super::script::{Script, fenced, put};
use crate::history::{Note, Pending, Phase, StepPromise};
use Phase::{Landed, Started};
use StepPromise::{AtLeastOnce, AtMostOnce, ExactlyOnce};

fn effect(key: &str) -> Phase {
    Phase::Effect(key.to_owned())
}

fn ended(result: &str) -> Note {
    Note::RunEnded { run: "run".to_owned(), result: result.to_owned() }
}

fn outputs(script: &mut Script, expected: &[&str], found: &[&str]) {
    let targets = |ids: &[&str]| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        [("target".to_owned(), ids)].into()
    };
    script.audit.to_handle.insert("reaction".to_owned(), targets(expected));
    script.audit.handled.insert("reaction".to_owned(), targets(found));
}

fn pending(script: &mut Script, what: &str) {
    let (what, why) = (what.to_owned(), "due".to_owned());
    script.audit.pending.push(Pending { what, since: 10, why });
}

pub(super) fn bad() -> Vec<Bad> {
    [reactions(), steps(), results(), rest()].into_iter().flatten().collect()
}

fn reactions() -> Vec<Bad> {
    vec![
        shows("not handled", "one of two events", |s| outputs(s, &["a", "b"], &["a"])),
        shows("not handled", "none at all", |s| {
            outputs(s, &["a"], &[]);
            s.audit.handled.clear();
        }),
        shows("handled for nothing", "an event of another target", |s| {
            outputs(s, &["a"], &["a", "x"]);
        }),
        shows("handled for nothing", "a target without events", |s| {
            outputs(s, &[], &["x"]);
            s.audit.to_handle.insert("reaction".to_owned(), [].into());
        }),
        shows("handled out of order", "two events", |s| outputs(s, &["a", "b"], &["b", "a"])),
        shows("handled out of order", "the last of three", |s| {
            outputs(s, &["a", "b", "c"], &["a", "c", "b"]);
        }),
        shows("landed twice", "the output of an event", |s| outputs(s, &["a"], &["a", "a"])),
        shows("landed twice", "the ack of an event", |s| {
            s.react(1, "a", 1, Landed).react(2, "a", 2, Landed);
        }),
        shows("done again", "an event that was acked", |s| {
            s.react(1, "a", 1, Started).react(2, "a", 1, Landed).react(3, "a", 2, Started);
        }),
        shows("effect under two keys", "of an event", |s| {
            s.react(1, "a", 1, effect("x")).react(2, "a", 2, effect("y"));
        }),
    ]
}

fn steps() -> Vec<Bad> {
    vec![
        shows("done again", "a step that was recorded", |s| {
            s.step(1, "pay", AtLeastOnce, 3, effect("k")).step(2, "pay", AtLeastOnce, 3, Landed);
            s.step(3, "pay", AtLeastOnce, 4, Started);
        }),
        shows("landed twice", "a step", |s| {
            s.step(1, "pay", AtMostOnce, 3, Landed).step(2, "pay", AtMostOnce, 4, Landed);
        }),
        shows("landed twice", "a step in the history", |s| {
            s.audit.recorded.insert(("run".to_owned(), "pay".to_owned()), 2);
        }),
        shows("effect under two keys", "of a step", |s| {
            s.step(1, "pay", AtLeastOnce, 1, effect("x"));
            s.step(2, "pay", AtLeastOnce, 2, effect("y"));
        }),
        shows("wrong number of effects", "an at-most-once step", |s| {
            s.step(1, "pay", AtMostOnce, 1, effect("x"));
            s.step(2, "pay", AtMostOnce, 2, effect("x"));
        }),
        shows("wrong number of effects", "a recorded step without one", |s| {
            s.step(1, "pay", AtLeastOnce, 1, Started).step(2, "pay", AtLeastOnce, 1, Landed);
        }),
        shows("wrong number of effects", "a transactional step", |s| {
            s.step(1, "pay", ExactlyOnce, 1, effect("x"));
            s.step(2, "pay", ExactlyOnce, 2, effect("x"));
        }),
    ]
}

fn results() -> Vec<Bad> {
    vec![
        shows("ended twice", "for two callers", |s| {
            s.note(1, ended("done")).note(2, ended("cancelled"));
        }),
        shows("ended twice", "differently in the store", |s| {
            s.note(1, ended("done"));
            s.audit.runs.insert("run".to_owned(), Some("failed".to_owned()));
        }),
        shows("ended twice", "and is open", |s| {
            s.note(1, ended("done"));
            s.audit.runs.insert("run".to_owned(), None);
        }),
        shows("two results", "a claimant's own", |s| {
            s.acquire(1..2, "one", ("key", 1), 15..90).release(3..4, ("key", 1), Some("x"));
            s.audit.results.insert("key".to_owned(), "y".to_owned());
        }),
        shows("two results", "a later claimant's", |s| {
            s.find_result(5..6, "key", "x");
            s.audit.results.insert("key".to_owned(), "y".to_owned());
        }),
        shows("lost effect", "of a job", |s| {
            s.audit.effects.insert("job".to_owned(), 0);
        }),
        shows("lost effect", "beside another", |s| {
            s.audit.effects.extend([("a".to_owned(), 1), ("b".to_owned(), 0)]);
        }),
        shows("effect under two keys", "of a job", |s| {
            let note = |key: &str| Note::Effect { what: "job".to_owned(), key: key.to_owned() };
            s.note(1, note("x")).note(2, note("y"));
        }),
    ]
}

fn rest() -> Vec<Bad> {
    vec![
        shows("unbounded growth", "of items", |s| {
            s.audit.rows.insert("items".to_owned(), (11, 10));
        }),
        shows("unbounded growth", "of commit ids", |s| {
            s.audit.rows.extend([("items".to_owned(), (3, 10)), ("ids".to_owned(), (1, 0))]);
        }),
        shows("not finished", "an item", |s| pending(s, "item a of queue b")),
        shows("not finished", "a run", |s| {
            s.audit.runs.insert("run".to_owned(), None);
        }),
    ]
}

#[test]
fn correct_accounts_balance() {
    let mut script = Script::default();
    outputs(&mut script, &["a", "b"], &["a", "b"]);
    script.react(1, "a", 1, Started).react(2, "a", 1, effect("k"));
    script.react(3, "a", 2, Started).react(4, "a", 2, effect("k")).react(5, "a", 2, Landed);
    // The first holder was paused, and does not know.
    script.react(6, "a", 1, effect("k")).react(7, "b", 2, Started).react(8, "b", 2, Landed);
    script.step(1, "pay", AtLeastOnce, 1, effect("p")).step(2, "pay", AtLeastOnce, 2, effect("p"));
    script.step(3, "pay", AtLeastOnce, 2, Landed).step(4, "mail", AtMostOnce, 2, Started);
    script.step(5, "book", ExactlyOnce, 2, effect("b")).step(6, "book", ExactlyOnce, 2, Landed);
    script.audit.runs.insert("run".to_owned(), Some("done".to_owned()));
    script.audit.recorded.insert(("run".to_owned(), "pay".to_owned()), 1);
    script.audit.effects.insert("job".to_owned(), 1);
    script.audit.rows.insert("items".to_owned(), (10, 10));
    script.note(9, ended("done")).note(10, ended("done"));
    script.acquire(1..2, "one", ("key", 1), 15..90);
    script.commit(2..3, [put("k", super::script::Any, "x", 1), fenced("key", 1)]);
    script.release(3..4, ("key", 1), Some("x")).find_result(5..6, "key", "x");
    script.audit.results.insert("key".to_owned(), "x".to_owned());
    assert_correct(&script);
}
