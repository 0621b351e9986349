//! A tiny store and its clients, from a seed: histories that must pass.
//!
//! Each client is idle, or between the begin of an operation and its effect, or between its effect
//! and its end; one step of one client at a time, chosen at random. Replies are lost, before or
//! after the effect, and an effect can come long after the client gave up.

use fastrand::Rng;

use super::script::moment;
use crate::history::{
    Action, Answer, Audit, Change, Client, Commit, EventRef, Expected, FinalStream, Found, Grant,
    History, Operation, Outcome, Part, PartAnswer, Refusal, Slot, StreamRead,
};

/// Events before the end from which a long stream is read.
const TAIL: usize = 50;
const RIGHTS: usize = 2;
/// Microseconds for which a right is held.
const HELD: i64 = 400;

/// The sequential store.
#[derive(Default)]
struct Store {
    feed: Vec<EventRef>,
    streams: Vec<Vec<EventRef>>,
    records: Vec<(u64, Option<String>)>,
    /// The fence, and until when it is held.
    rights: [(u64, i64); RIGHTS],
}

struct Running {
    operation: Operation,
    answer: Option<Outcome>,
    /// The reply is lost.
    is_lost: bool,
}

struct Clients {
    rng: Rng,
    store: Store,
    seq: u64,
    events: u64,
    running: Vec<Option<Running>>,
    /// Operations whose client gave up, and which may still take effect.
    late: Vec<Action>,
    followers: Vec<u64>,
    done: Vec<Operation>,
    /// What each client holds: a right and its fence.
    held: Vec<Option<(usize, u64)>>,
}

/// How much happens.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) operations: usize,
    pub(super) clients: usize,
    /// Streams, and records.
    pub(super) keys: usize,
}

/// A correct history of about this size, with its final state.
pub(super) fn history(seed: u64, size: Size) -> (History, Audit) {
    let Size { operations, clients, keys } = size;
    let mut model = Clients {
        rng: Rng::with_seed(seed),
        store: Store {
            streams: vec![Vec::new(); keys],
            records: vec![(0, None); keys],
            ..Store::default()
        },
        seq: 0,
        events: 0,
        running: (0..clients).map(|_| None).collect(),
        late: Vec::new(),
        followers: vec![0; clients],
        done: Vec::new(),
        held: vec![None; clients],
    };
    while model.done.len() < operations {
        model.step();
    }
    model.finish()
}

impl Clients {
    fn step(&mut self) {
        self.seq += 1;
        if !self.late.is_empty() && self.rng.u8(..20) == 0 {
            let late = self.late.swap_remove(self.rng.usize(..self.late.len()));
            drop(self.store.apply(&late, self.seq as i64 * 10));
        }
        let who = self.rng.usize(..self.running.len());
        match self.running[who].take() {
            None => {
                let operation = self.begin(who);
                let is_lost = self.rng.u8(..30) == 0;
                self.running[who] = Some(Running { operation, answer: None, is_lost });
            }
            Some(mut running) if running.answer.is_none() => {
                if running.is_lost && self.rng.bool() {
                    self.late.push(running.operation.action.clone());
                    self.done.push(running.operation);
                    return;
                }
                let action = &running.operation.action;
                running.answer = Some(self.store.apply(action, self.seq as i64 * 10));
                self.running[who] = Some(running);
            }
            Some(running) => self.end(who, running),
        }
    }

    fn end(&mut self, who: usize, running: Running) {
        let mut operation = running.operation;
        if !running.is_lost {
            operation.returned = Some(moment(self.seq));
            operation.outcome = running.answer.expect("it took effect");
            match (&operation.outcome, &operation.action) {
                (Outcome::Done(Answer::Page { next, .. }), _) => self.followers[who] = *next,
                (Outcome::Done(Answer::Granted(grants)), Action::Acquire { rights, .. }) => {
                    self.held[who] = Some((index(&rights[0]), grants[0].fence));
                }
                _ => {}
            }
        }
        self.done.push(operation);
    }

    fn begin(&mut self, who: usize) -> Operation {
        let action = match self.rng.u8(..10) {
            0 => {
                let stream = self.key();
                let after = self.store.streams[stream].len().saturating_sub(TAIL) as u64;
                Action::ReadStream { stream: format!("s{stream}"), after }
            }
            1 => Action::ReadRecords {
                keys: (0..self.store.records.len().min(4)).map(|n| format!("k{n}")).collect(),
            },
            2 => {
                let (follower, prefix) = (format!("f{who}"), String::new());
                Action::ReadFeed { follower, after: self.followers[who], prefix }
            }
            3 => {
                let right = format!("r{}", self.rng.usize(..RIGHTS));
                Action::Acquire { rights: vec![right], holder: format!("{who} at {}", self.seq) }
            }
            _ => Action::Commit(self.commit(who)),
        };
        let outcome = Outcome::Unknown("the process ended".to_owned());
        let client = Client { process: "p".to_owned(), number: who as u64 };
        Operation { client, invoked: moment(self.seq), returned: None, action, outcome }
    }

    fn key(&mut self) -> usize {
        self.rng.usize(..self.store.streams.len())
    }

    /// Three neighbors.
    fn keys(&mut self) -> impl Iterator<Item = usize> + use<> {
        let (first, all) = (self.key(), self.store.streams.len());
        (0..all.min(3)).map(move |n| (first + n) % all)
    }

    fn commit(&mut self, who: usize) -> Commit {
        let mut parts = Vec::new();
        for stream in self.keys() {
            let expected = match self.rng.u8(..3) {
                0 => Expected::Any,
                _ => number(self.store.streams[stream].len() as u64),
            };
            let name = format!("s{stream}");
            match self.rng.u8(..6) {
                0 | 1 => {
                    let events = (0..self.rng.u64(1..4)).map(|n| format!("e{}", self.events + n));
                    let events: Vec<String> = events.collect();
                    self.events += events.len() as u64;
                    parts.push(Part::Append { stream: name, expected, events, close: false });
                }
                2 => parts.push(Part::GuardStream { stream: name, expected }),
                _ => {}
            }
        }
        for record in self.keys() {
            let (key, (revision, value)) = (format!("k{record}"), &self.store.records[record]);
            let expected = match self.rng.u8(..3) {
                0 => value.as_ref().map_or(Expected::Absent, |_| Expected::Exactly(*revision)),
                _ => Expected::Any,
            };
            let change = match self.rng.u8(..10) {
                0 => Change::Put(self.seq.to_string()),
                1 => Change::Delete,
                2 => Change::Add { delta: 1, min: None, max: Some(i64::MAX) },
                _ => continue,
            };
            parts.push(Part::Write { key, expected, change, expires: None });
        }
        if let Some((right, fence)) = self.held[who].take_if(|_| self.rng.bool()) {
            parts.push(Part::Settle { right: format!("r{right}"), fence });
        } else if let Some((right, fence)) = self.held[who] {
            parts.push(Part::Fence { right: format!("r{right}"), fence });
        }
        Commit { id: None, parts }
    }

    fn finish(mut self) -> (History, Audit) {
        for running in std::mem::take(&mut self.running).into_iter().flatten() {
            self.done.push(running.operation);
        }
        let store = self.store;
        let stream = |n: usize| {
            let events = store.streams[n].clone();
            let version = events.last().map(|event| event.version);
            (format!("s{n}"), FinalStream { events, version, closed: false })
        };
        let audit = Audit {
            streams: (0..store.streams.len()).map(stream).collect(),
            records: (0..store.records.len()).map(|n| (format!("k{n}"), store.slot(n))).collect(),
            feed: Some(store.feed),
            all_commits: true,
            ..Audit::default()
        };
        let mut history = History { operations: self.done, remarks: Vec::new() };
        history.sort();
        (history, audit)
    }
}

fn number(version: u64) -> Expected {
    if version == 0 { Expected::Absent } else { Expected::Exactly(version) }
}

fn index(name: &str) -> usize {
    name[1..].parse().expect("names end with a number")
}

fn meets(expected: Expected, found: Option<u64>) -> bool {
    match expected {
        Expected::Any => true,
        Expected::Absent => found.is_none(),
        Expected::Exists => found.is_some(),
        Expected::Exactly(number) => found == Some(number),
    }
}

impl Store {
    fn slot(&self, record: usize) -> Slot {
        match &self.records[record] {
            (0, _) => Slot::Absent,
            (revision, None) => Slot::Deleted(*revision),
            (revision, Some(value)) => {
                Slot::Live { revision: *revision, value: value.clone(), expires: None }
            }
        }
    }

    fn version(&self, stream: &str) -> Option<u64> {
        self.streams[index(stream)].last().map(|event| event.version)
    }

    /// Takes effect at this moment.
    fn apply(&mut self, action: &Action, at: i64) -> Outcome {
        Outcome::Done(match action {
            Action::Commit(commit) => return self.commit(commit, at),
            Action::ReadStream { stream, after } => {
                let events = self.streams[index(stream)][*after as usize..].to_vec();
                let version = self.version(stream);
                Answer::Stream(StreamRead { events, end: true, version, closed: false })
            }
            Action::ReadRecords { keys } => {
                Answer::Records(keys.iter().map(|key| self.slot(index(key))).collect())
            }
            Action::ReadFeed { after, .. } => {
                let from = self.feed.partition_point(|event| event.position <= *after);
                let events: Vec<EventRef> = self.feed[from..].iter().take(20).cloned().collect();
                let next = events.last().map_or(*after, |event| event.position);
                Answer::Page { events, next }
            }
            Action::Acquire { rights, .. } => {
                let (fence, until) = &mut self.rights[index(&rights[0])];
                if *until > at {
                    let found = Found::Held { fence: Some(*fence), until: Some(*until) };
                    return Outcome::Refused(vec![Refusal { part: 0, found }]);
                }
                (*fence, *until) = (*fence + 1, at + HELD);
                let right = rights[0].clone();
                Answer::Granted(vec![Grant { right, fence: *fence, since: at, until: *until }])
            }
            other => panic!("the model does not know {other:?}"),
        })
    }

    fn commit(&mut self, commit: &Commit, at: i64) -> Outcome {
        let refusals: Vec<Refusal> = (0..)
            .zip(&commit.parts)
            .filter_map(|(part, one)| Some(Refusal { part, found: self.refuse(one)? }))
            .collect();
        if !refusals.is_empty() {
            return Outcome::Refused(refusals);
        }
        let parts = commit.parts.iter().map(|part| self.write(part)).collect();
        Outcome::Done(Answer::Committed { at, parts })
    }

    fn refuse(&self, part: &Part) -> Option<Found> {
        match part {
            Part::Append { stream, expected, .. } | Part::GuardStream { stream, expected } => {
                let version = self.version(stream);
                (!meets(*expected, version)).then_some(Found::Stream { version, closed: false })
            }
            Part::Write { key, expected, .. } => {
                let (revision, value) = &self.records[index(key)];
                let found = value.as_ref().map(|_| *revision);
                (!meets(*expected, found)).then(|| Found::Slot(self.slot(index(key))))
            }
            Part::Fence { right, fence } | Part::Settle { right, fence } => {
                let (newest, until) = self.rights[index(right)];
                (newest != *fence || until == 0).then_some(Found::Lost)
            }
            other => panic!("the model does not know {other:?}"),
        }
    }

    fn write(&mut self, part: &Part) -> PartAnswer {
        match part {
            Part::Append { stream, events, .. } => {
                let first = self.feed.len() as u64 + 1;
                for id in events {
                    let version = self.version(stream).unwrap_or(0) + 1;
                    let (id, name) = (id.clone(), stream.clone());
                    let position = self.feed.len() as u64 + 1;
                    let event = EventRef { id, stream: name, version, position };
                    self.streams[index(stream)].push(event.clone());
                    self.feed.push(event);
                }
                let version = self.version(stream).expect("there is an event now");
                let positions = Some((first, self.feed.len() as u64));
                PartAnswer::Appended { version, positions, replayed: false }
            }
            Part::Write { key, change, .. } => self.change(index(key), change),
            Part::Settle { right, .. } => {
                self.rights[index(right)].1 = 0;
                PartAnswer::Held
            }
            _ => PartAnswer::Held,
        }
    }

    fn change(&mut self, record: usize, change: &Change) -> PartAnswer {
        let (revision, value) = &mut self.records[record];
        let mut sum = None;
        match change {
            Change::Delete if value.is_none() => {
                let revision = Some(*revision).filter(|revision| *revision > 0);
                return PartAnswer::Written { revision, sum };
            }
            Change::Delete => *value = None,
            Change::Put(put) => *value = Some(put.clone()),
            Change::Add { delta, .. } => {
                let before = value.as_deref().map_or(0, |value| value.parse().unwrap());
                sum = Some(before + delta);
                *value = sum.map(|sum: i64| sum.to_string());
            }
            Change::Push(_) | Change::Edit(_) | Change::Rate { .. } => {
                unreachable!("the model never does this")
            }
        }
        *revision += 1;
        PartAnswer::Written { revision: Some(*revision), sum }
    }
}
