//! Hand-written histories: each operation with the moments of its begin and its end.
//!
//! The store's clock reads ten times the number of a moment, and five more in the middle of an
//! operation.

use std::ops::Range;

use crate::history::{
    Action, Answer, Audit, Change, Client, Commit, EventRef, Expected, FinalStream, Found, Grant,
    History, Moment, Note, Operation, Outcome, Part, PartAnswer, Phase, Refusal, Remark, Slot,
    StreamRead,
};

pub(super) use Expected::{Absent, Any, Exactly};

#[derive(Debug, Default, Clone)]
pub(super) struct Script {
    history: History,
    pub(super) audit: Audit,
}

pub(super) fn moment(seq: u64) -> Moment {
    Moment { seq, at: Some(seq as i64 * 10) }
}

impl Script {
    pub(super) fn finished(&self) -> (History, Audit) {
        let mut history = self.history.clone();
        history.sort();
        (history, self.audit.clone())
    }

    pub(super) fn op(&mut self, span: Range<u64>, action: Action, outcome: Outcome) -> &mut Self {
        let number = self.history.operations.len() as u64;
        self.history.operations.push(Operation {
            client: Client { process: "p".to_owned(), number },
            invoked: moment(span.start),
            returned: Some(moment(span.end)),
            action,
            outcome,
        });
        self
    }

    fn done(&mut self, span: Range<u64>, action: Action, answer: Answer) -> &mut Self {
        self.op(span, action, Outcome::Done(answer))
    }

    /// A commit that landed in the middle of the span.
    pub(super) fn commit<const N: usize>(
        &mut self,
        span: Range<u64>,
        parts: [(Part, PartAnswer); N],
    ) -> &mut Self {
        self.commit_as("", span, parts)
    }

    /// A commit under an id, unless that is empty.
    pub(super) fn commit_as<const N: usize>(
        &mut self,
        id: &str,
        span: Range<u64>,
        parts: [(Part, PartAnswer); N],
    ) -> &mut Self {
        let at = span.start as i64 * 10 + 5;
        let (parts, answers) = parts.into_iter().unzip();
        self.done(span, commit(id, parts), Answer::Committed { at, parts: answers })
    }

    /// A commit without an answer.
    pub(super) fn unknown(&mut self, id: &str, from: u64, parts: &[Part]) -> &mut Self {
        let outcome = Outcome::Unknown("lost".to_owned());
        self.op(from..from, commit(id, parts.to_vec()), outcome);
        self.history.operations.last_mut().unwrap().returned = None;
        self
    }

    /// A commit of which this part was refused.
    pub(super) fn refused(
        &mut self,
        id: &str,
        span: Range<u64>,
        parts: &[Part],
        part: usize,
        found: Found,
    ) -> &mut Self {
        let outcome = Outcome::Refused(vec![Refusal { part, found }]);
        self.op(span, commit(id, parts.to_vec()), outcome)
    }

    /// A read of a stream from its beginning to its end.
    pub(super) fn read<const N: usize>(
        &mut self,
        span: Range<u64>,
        stream: &str,
        events: [&str; N],
    ) -> &mut Self {
        let events: Vec<EventRef> = events.map(event).into();
        let version = events.last().map(|event| event.version);
        let read = StreamRead { events, end: true, version, closed: false };
        let action = Action::ReadStream { stream: stream.to_owned(), after: 0 };
        self.done(span, action, Answer::Stream(read))
    }

    /// A read of records, all at one moment.
    pub(super) fn get<const N: usize>(
        &mut self,
        span: Range<u64>,
        slots: [(&str, Slot); N],
    ) -> &mut Self {
        let (keys, slots) = slots.map(|(key, slot)| (key.to_owned(), slot)).into_iter().unzip();
        self.done(span, Action::ReadRecords { keys }, Answer::Records(slots))
    }

    /// A page of the feed.
    pub(super) fn page<const N: usize>(
        &mut self,
        span: Range<u64>,
        follower: &str,
        (after, next): (u64, u64),
        events: [&str; N],
    ) -> &mut Self {
        let (follower, prefix) = (follower.to_owned(), String::new());
        let action = Action::ReadFeed { follower, after, prefix };
        self.done(span, action, Answer::Page { events: events.map(event).into(), next })
    }

    /// A right, granted from a moment of the store's clock until another.
    pub(super) fn acquire(
        &mut self,
        span: Range<u64>,
        holder: &str,
        (right, fence): (&str, u64),
        held: Range<i64>,
    ) -> &mut Self {
        let (right, holder) = (right.to_owned(), holder.to_owned());
        let action = Action::Acquire { rights: vec![right.clone()], holder };
        let grant = Grant { right, fence, since: held.start, until: held.end };
        self.done(span, action, Answer::Granted(vec![grant]))
    }

    /// A request for a key that is completed with this result.
    pub(super) fn find_result(&mut self, span: Range<u64>, right: &str, result: &str) -> &mut Self {
        let action = Action::Acquire { rights: vec![right.to_owned()], holder: "other".to_owned() };
        self.done(span, action, Answer::Result(result.to_owned()))
    }

    pub(super) fn renew(
        &mut self,
        span: Range<u64>,
        (right, fence): (&str, u64),
        until: i64,
    ) -> &mut Self {
        let action = Action::Renew { right: right.to_owned(), fence };
        self.done(span, action, Answer::Renewed(until))
    }

    pub(super) fn release(
        &mut self,
        span: Range<u64>,
        (right, fence): (&str, u64),
        result: Option<&str>,
    ) -> &mut Self {
        let (right, result) = (right.to_owned(), result.map(str::to_owned));
        self.done(span, Action::Release { right, fence, result }, Answer::Released)
    }

    pub(super) fn mutate(
        &mut self,
        span: Range<u64>,
        (scope, operation): (&str, &str),
        change: Change,
        (revision, value): (u64, &str),
    ) -> &mut Self {
        let operation = (!operation.is_empty()).then(|| operation.to_owned());
        let action = Action::Mutate { scope: scope.to_owned(), operation, expected: Any, change };
        let answer = Answer::Mutated { revision: Some(revision), value: Some(value.to_owned()) };
        self.done(span, action, answer)
    }

    /// Units of a quota of 3, out for this span of the store's clock.
    pub(super) fn take(
        &mut self,
        span: Range<u64>,
        id: &str,
        units: i64,
        out: Range<i64>,
    ) -> &mut Self {
        let (quota, id) = ("quota".to_owned(), id.to_owned());
        let action = Action::Take { quota, limit: 3, id, units };
        self.done(span, action, Answer::Taken { from: out.start, until: out.end })
    }

    pub(super) fn note(&mut self, seq: u64, note: Note) -> &mut Self {
        let client = Client { process: "p".to_owned(), number: 0 };
        self.history.remarks.push(Remark { client, moment: moment(seq), note });
        self
    }

    pub(super) fn step(
        &mut self,
        seq: u64,
        step: &str,
        promise: crate::history::StepPromise,
        fence: u64,
        phase: Phase,
    ) -> &mut Self {
        let (run, step, fence) = ("run".to_owned(), step.to_owned(), Some(fence));
        self.note(seq, Note::Step { run, step, promise, fence, phase })
    }

    pub(super) fn react(&mut self, seq: u64, event: &str, fence: u64, phase: Phase) -> &mut Self {
        let (reaction, target) = ("reaction".to_owned(), "target".to_owned());
        let (event, fence) = (event.to_owned(), Some(fence));
        self.note(seq, Note::Reaction { reaction, target, rebuild: 0, event, fence, phase })
    }

    /// What the final feed is.
    pub(super) fn feed<const N: usize>(&mut self, events: [&str; N]) -> &mut Self {
        self.audit.feed = Some(events.map(event).into());
        self.audit.all_commits = true;
        self
    }

    /// A stream as it is at the end.
    pub(super) fn ends<const N: usize>(&mut self, stream: &str, events: [&str; N]) -> &mut Self {
        let events: Vec<EventRef> = events.map(event).into();
        let version = events.last().map(|event| event.version);
        let end = FinalStream { events, version, closed: false };
        self.audit.streams.insert(stream.to_owned(), end);
        self
    }
}

fn commit(id: &str, parts: Vec<Part>) -> Action {
    Action::Commit(Commit { id: (!id.is_empty()).then(|| id.to_owned()), parts })
}

/// An event: its id, stream, version and position.
pub(super) fn event(words: &str) -> EventRef {
    let words: Vec<&str> = words.split(' ').collect();
    let [id, stream, version, position] = words[..] else { panic!("{words:?}") };
    let (id, stream) = (id.to_owned(), stream.to_owned());
    EventRef { id, stream, version: version.parse().unwrap(), position: position.parse().unwrap() }
}

pub(super) fn appending(stream: &str, expected: Expected, events: &str) -> Part {
    let events = events.split(' ').map(str::to_owned).collect();
    Part::Append { stream: stream.to_owned(), expected, events, close: false }
}

/// An append that landed: the last version, and the positions of the first and the last event.
pub(super) fn append(
    stream: &str,
    expected: Expected,
    events: &str,
    (version, first, last): (u64, u64, u64),
) -> (Part, PartAnswer) {
    let positions = Some((first, last));
    let answer = PartAnswer::Appended { version, positions, replayed: false };
    (appending(stream, expected, events), answer)
}

pub(super) fn writing(key: &str, expected: Expected, change: Change) -> Part {
    Part::Write { key: key.to_owned(), expected, change, expires: None }
}

/// A value that was put, at this revision.
pub(super) fn put(key: &str, expected: Expected, value: &str, revision: u64) -> (Part, PartAnswer) {
    let answer = PartAnswer::Written { revision: Some(revision), sum: None };
    (writing(key, expected, Change::Put(value.to_owned())), answer)
}

pub(super) fn plus(delta: i64) -> Change {
    Change::Add { delta, min: None, max: None }
}

/// An addition, with the revision and the sum that it made.
pub(super) fn add(key: &str, delta: i64, revision: u64, sum: i64) -> (Part, PartAnswer) {
    let answer = PartAnswer::Written { revision: Some(revision), sum: Some(sum) };
    (writing(key, Any, plus(delta)), answer)
}

pub(super) fn guard(stream: &str, expected: Expected) -> (Part, PartAnswer) {
    (Part::GuardStream { stream: stream.to_owned(), expected }, PartAnswer::Held)
}

pub(super) fn fenced(right: &str, fence: u64) -> (Part, PartAnswer) {
    (Part::Fence { right: right.to_owned(), fence }, PartAnswer::Held)
}

pub(super) fn settled(right: &str, fence: u64) -> (Part, PartAnswer) {
    (Part::Settle { right: right.to_owned(), fence }, PartAnswer::Held)
}

pub(super) fn live(revision: u64, value: &str) -> Slot {
    Slot::Live { revision, value: value.to_owned(), expires: None }
}

pub(super) fn at(version: u64) -> Found {
    Found::Stream { version: Some(version), closed: false }
}
