//! Objects: the history of each stream, record, scope and right, as operations on it alone.
//!
//! A commit becomes one operation on each object that it names. A refusal names every part that
//! failed with what was found there, and so says that all its other parts held at that moment.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::cases::{Case, Fate};
use super::linearizable::record::{RecordObject, RecordOp, Span, Write, add};
use super::linearizable::right::{RightObject, RightOp};
use super::linearizable::stream::{StreamCommit, StreamObject, StreamOp};
use super::linearizable::{self, Call};
use super::{Inquiry, Report};
use crate::history::{
    Action, Answer, Change, Commit, Expected, Found, Operation, Outcome, Part, PartAnswer, Refusal,
    Slot, StreamRead,
};

type Calls<'a, Op> = BTreeMap<&'a str, Vec<Call<Op>>>;

/// The operations on every object.
#[derive(Default)]
struct Objects<'a> {
    streams: Calls<'a, StreamOp>,
    records: Calls<'a, RecordOp>,
    scopes: Calls<'a, RecordOp>,
    rights: Calls<'a, RightOp>,
    /// The events of the commits so far, by invocation.
    sent: HashSet<&'a str>,
    /// The stream and the version of each event that is there at the end.
    places: HashMap<&'a str, (&'a str, u64)>,
}

/// Checks that every object is linearizable.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut objects = Objects { places: places(inquiry), ..Objects::default() };
    inquiry.cases.iter().for_each(|case| objects.commit(case));
    for operation in &inquiry.history.operations {
        objects.operation(operation, report);
        if let Action::Commit(commit) = &operation.action {
            objects.sent.extend(commit.parts.iter().flat_map(Part::events));
        }
    }
    objects.mutations(inquiry);
    objects.revocations(inquiry);
    objects.final_read(inquiry);
    let forgotten = forgotten(&inquiry.cases);
    for (name, calls) in &objects.streams {
        let begins_anywhere = forgotten.contains(&category(name));
        linearizable::check(&StreamObject { begins_anywhere }, "stream", name, calls, report);
    }
    for (name, calls) in &objects.records {
        linearizable::check(&RecordObject, "record", name, calls, report);
    }
    for (name, calls) in &objects.scopes {
        linearizable::check(&RecordObject, "scope", name, calls, report);
    }
    for (name, calls) in &objects.rights {
        linearizable::check(&RightObject, "right", name, calls, report);
    }
}

fn places<'a>(inquiry: &Inquiry<'a>) -> HashMap<&'a str, (&'a str, u64)> {
    let feed = inquiry.audit.feed.iter().flatten();
    feed.map(|event| (event.id.as_str(), (event.stream.as_str(), event.version))).collect()
}

/// The categories of streams that the store may forget.
fn forgotten<'a>(cases: &[Case<'a>]) -> Vec<&'a str> {
    let parts = cases.iter().flat_map(|case| &case.commit.parts);
    let forgotten = parts.filter_map(|part| match part {
        Part::Trim { stream, forget: true, .. } => Some(category(stream)),
        _ => None,
    });
    forgotten.collect()
}

/// The part of a stream's name that decides which streams begin above its versions.
fn category(stream: &str) -> &str {
    stream.find('/').map_or(stream, |at| &stream[..=at])
}

/// The change of a commit to a stream, by the stream's name.
fn on_streams<'a>(case: &Case<'a>) -> BTreeMap<&'a str, StreamCommit> {
    let mut streams: BTreeMap<&str, StreamCommit> = BTreeMap::new();
    let answers: &[PartAnswer] = match &case.fate {
        Fate::Landed { parts, .. } => parts,
        _ => &[],
    };
    for (nth, part) in case.commit.parts.iter().enumerate() {
        match (part, answers.get(nth)) {
            (_, Some(PartAnswer::Appended { replayed: true, .. })) => {}
            (Part::Append { stream, expected, events, close }, answer) => {
                let one = streams.entry(stream).or_default();
                one.expected.push(*expected);
                (one.append, one.close) = (Some(events.len() as u64), *close);
                if let Some(PartAnswer::Appended { version, .. }) = answer {
                    one.version = Some(*version);
                }
            }
            (Part::GuardStream { stream, expected }, _) => {
                streams.entry(stream).or_default().expected.push(*expected);
            }
            (Part::Trim { stream, through, reopen, forget }, _) => {
                let one = streams.entry(stream).or_default();
                (one.trim, one.forget) = (Some((*through, *reopen)), *forget);
            }
            _ => {}
        }
    }
    streams
}

/// The change of a commit to a record, by the record's key.
fn on_records<'a>(case: &Case<'a>) -> BTreeMap<&'a str, Write> {
    let mut records: BTreeMap<&str, Write> = BTreeMap::new();
    let (at, answers): (_, &[PartAnswer]) = match &case.fate {
        Fate::Landed { at, parts } => (*at, parts),
        _ => (None, &[]),
    };
    let blank =
        || Write { expected: vec![], change: None, expires: None, at, revision: None, value: None };
    for (nth, part) in case.commit.parts.iter().enumerate() {
        match part {
            Part::Write { key, expected, change, expires } => {
                let one = records.entry(key).or_insert_with(blank);
                one.expected.push(*expected);
                (one.change, one.expires) = (Some(change.clone()), *expires);
                if let Some(PartAnswer::Written { revision, sum }) = answers.get(nth) {
                    one.revision = Some(*revision);
                    one.value = sum.map(|sum| sum.to_string());
                }
            }
            Part::GuardRecord { key, expected } => {
                records.entry(key).or_insert_with(blank).expected.push(*expected);
            }
            _ => {}
        }
    }
    records
}

/// The moments of the store's clock between which an operation took effect.
fn span(operation: &Operation) -> Span {
    Span { from: operation.invoked.at, until: operation.returned.and_then(|end| end.at) }
}

/// An operation that certainly took effect, by its answer.
fn answered<Op>(operation: &Operation, op: Op) -> Call<Op> {
    let returned = Some(operation.returned.map_or(u64::MAX, |end| end.seq));
    Call { invoked: operation.invoked.seq, returned, op, name: operation.name() }
}

/// An operation that may have taken effect.
fn open<Op>(operation: &Operation, op: Op) -> Call<Op> {
    Call { returned: None, ..answered(operation, op) }
}

impl<'a> Objects<'a> {
    fn commit(&mut self, case: &Case<'a>) {
        let returned = match &case.fate {
            Fate::Never => return,
            Fate::Landed { .. } => Some(case.returned.unwrap_or(u64::MAX)),
            Fate::Unknown => None,
        };
        let (invoked, name) = (case.invoked, &case.name);
        for (stream, commit) in on_streams(case) {
            let op = StreamOp::Commit(commit);
            let call = Call { invoked, returned, op, name: name.clone() };
            self.streams.entry(stream).or_default().push(call);
        }
        for (key, write) in on_records(case) {
            let op = RecordOp::Write(write);
            let call = Call { invoked, returned, op, name: name.clone() };
            self.records.entry(key).or_default().push(call);
        }
        for part in &case.commit.parts {
            let (right, op) = match part {
                Part::Settle { right, fence } => {
                    (right, RightOp::Ended { fence: *fence, result: None })
                }
                Part::Fence { right, fence } => (right, RightOp::Used { fence: *fence }),
                _ => continue,
            };
            let call = Call { invoked, returned, op, name: name.clone() };
            self.rights.entry(right).or_default().push(call);
        }
    }

    fn operation(&mut self, operation: &'a Operation, report: &mut Report) {
        match (&operation.action, &operation.outcome) {
            (Action::Commit(commit), Outcome::Refused(refusals)) if !refusals.is_empty() => {
                self.refused(operation, commit, refusals, report);
            }
            (Action::ReadStream { stream, .. }, Outcome::Done(Answer::Stream(read))) => {
                let StreamRead { version, closed, .. } = read;
                let op = StreamOp::Found { version: *version, closed: *closed };
                self.streams.entry(stream).or_default().push(answered(operation, op));
            }
            (Action::ReadRecords { keys }, Outcome::Done(Answer::Records(slots))) => {
                for (key, slot) in keys.iter().zip(slots) {
                    let op = RecordOp::Found { slot: slot.clone(), during: span(operation) };
                    self.records.entry(key).or_default().push(answered(operation, op));
                }
            }
            (Action::ReadScope { scope }, Outcome::Done(Answer::Records(slots))) => {
                for slot in slots {
                    let op = RecordOp::Found { slot: slot.clone(), during: span(operation) };
                    self.scopes.entry(scope).or_default().push(answered(operation, op));
                }
            }
            _ => self.on_right(operation),
        }
    }

    fn on_right(&mut self, operation: &'a Operation) {
        match (&operation.action, &operation.outcome) {
            (Action::Acquire { .. }, Outcome::Done(Answer::Granted(grants))) => {
                for grant in grants {
                    let (fence, since, until) = (grant.fence, grant.since, grant.until);
                    let op = RightOp::Granted { fence, since, until };
                    self.rights.entry(&grant.right).or_default().push(answered(operation, op));
                }
            }
            (Action::Acquire { rights, .. }, Outcome::Done(Answer::Result(result))) => {
                for right in rights {
                    let op = RightOp::Found { result: result.clone() };
                    self.rights.entry(right).or_default().push(answered(operation, op));
                }
            }
            (Action::Renew { right, fence }, Outcome::Done(Answer::Renewed(until))) => {
                let op = RightOp::Renewed { fence: *fence, until: *until };
                self.rights.entry(right).or_default().push(answered(operation, op));
            }
            (Action::Release { right, fence, result }, Outcome::Done(_)) => {
                let op = RightOp::Ended { fence: *fence, result: result.clone() };
                self.rights.entry(right).or_default().push(answered(operation, op));
            }
            (Action::Release { right, fence, result }, Outcome::Unknown(_)) => {
                let op = RightOp::Ended { fence: *fence, result: result.clone() };
                self.rights.entry(right).or_default().push(open(operation, op));
            }
            _ => {}
        }
    }

    /// What a refusal says about each part.
    fn refused(
        &mut self,
        operation: &'a Operation,
        commit: &'a Commit,
        refusals: &'a [Refusal],
        report: &mut Report,
    ) {
        let found: HashMap<usize, &Found> =
            refusals.iter().map(|refusal| (refusal.part, &refusal.found)).collect();
        let during = span(operation);
        for (nth, part) in commit.parts.iter().enumerate() {
            let found = found.get(&nth).copied();
            if found.is_some_and(|found| holds(part, found) || self.was_there(part, found)) {
                let story = format!("{}: part {nth} was refused on {found:?}", operation.name());
                report.add("refused though it holds", story);
            }
            match part {
                Part::Append { stream, expected, .. } | Part::GuardStream { stream, expected } => {
                    let open = matches!(part, Part::Append { .. }) && !trims(commit, stream);
                    let op = match found {
                        Some(Found::Stream { version, closed }) => {
                            StreamOp::Found { version: *version, closed: *closed }
                        }
                        Some(_) => continue,
                        // Events that an earlier send wrote hold whatever is expected.
                        None if part.events().any(|id| self.sent.contains(id)) => continue,
                        None => StreamOp::Met { expected: *expected, open },
                    };
                    self.streams.entry(stream).or_default().push(answered(operation, op));
                }
                Part::Write { key, expected, .. } | Part::GuardRecord { key, expected } => {
                    let op = match found {
                        Some(Found::Slot(slot)) => RecordOp::Found { slot: slot.clone(), during },
                        Some(Found::Sum(sum)) => RecordOp::FoundSum(*sum),
                        Some(_) => continue,
                        None => RecordOp::Met { expected: *expected, during },
                    };
                    self.records.entry(key).or_default().push(answered(operation, op));
                }
                _ => {}
            }
        }
    }

    /// Whether the events of an append were in its stream when it was refused: then it holds, at
    /// whatever version it was expected.
    fn was_there(&self, part: &Part, found: &Found) -> bool {
        let (Part::Append { stream, .. }, Found::Stream { version: Some(found), .. }) =
            (part, found)
        else {
            return false;
        };
        let mut events = part.events().peekable();
        events.peek().is_some()
            && events
                .all(|id| self.places.get(id).is_some_and(|(of, at)| of == stream && at <= found))
    }

    /// Mutations of scopes: those under one operation id are one.
    fn mutations(&mut self, inquiry: &Inquiry<'a>) {
        let mut groups: BTreeMap<(&str, Option<&str>, u64), Vec<&Operation>> = BTreeMap::new();
        for operation in &inquiry.history.operations {
            if let Action::Mutate { scope, operation: id, .. } = &operation.action {
                let alone = if id.is_some() { 0 } else { operation.invoked.seq };
                groups.entry((scope, id.as_deref(), alone)).or_default().push(operation);
            }
        }
        for ((scope, ..), sends) in groups {
            self.scopes.entry(scope).or_default().extend(mutation(&sends));
        }
    }

    /// An operator's revocation may end any of the leases that it names.
    fn revocations(&mut self, inquiry: &Inquiry<'a>) {
        for operation in &inquiry.history.operations {
            let Action::Revoke { prefix } = &operation.action else { continue };
            let named = self.rights.iter_mut().filter(|(right, _)| right.starts_with(prefix));
            named.for_each(|(_, calls)| calls.push(open(operation, RightOp::Revoked)));
        }
    }

    /// What the final read found, after everything else.
    fn final_read(&mut self, inquiry: &Inquiry<'a>) {
        let audit = inquiry.audit;
        for (name, stream) in &audit.streams {
            let op = StreamOp::Found { version: stream.version, closed: stream.closed };
            self.streams.entry(name).or_default().push(last(op));
        }
        for (key, slot) in &audit.records {
            self.records.entry(key).or_default().push(last_slot(slot));
        }
        for (scope, slot) in &audit.scopes {
            self.scopes.entry(scope).or_default().push(last_slot(slot));
        }
    }
}

fn last<Op>(op: Op) -> Call<Op> {
    Call { invoked: u64::MAX - 1, returned: Some(u64::MAX), op, name: "the final read".to_owned() }
}

fn last_slot(slot: &Slot) -> Call<RecordOp> {
    last(RecordOp::Found { slot: slot.clone(), during: Span::default() })
}

fn trims(commit: &Commit, stream: &str) -> bool {
    let trims = |part: &Part| matches!(part, Part::Trim { stream: other, .. } if other == stream);
    commit.parts.iter().any(trims)
}

/// Whether a part that was refused holds on what was found.
fn holds(part: &Part, found: &Found) -> bool {
    let meets = |expected: &Expected, number: Option<u64>| match expected {
        Expected::Any => true,
        Expected::Absent => number.is_none(),
        Expected::Exists => number.is_some(),
        Expected::Exactly(expected) => number == Some(*expected),
    };
    let live = |slot: &Slot| match slot {
        Slot::Live { revision, .. } => Some(*revision),
        Slot::Absent | Slot::Deleted(_) => None,
    };
    match (part, found) {
        (Part::Append { expected, events, .. }, Found::Stream { version, closed }) => {
            let closes_nothing = events.is_empty() && version.is_none();
            meets(expected, *version) && !closed && !closes_nothing
        }
        (Part::GuardStream { expected, .. }, Found::Stream { version, .. }) => {
            meets(expected, *version)
        }
        (Part::Write { change: Change::Add { delta, min, max }, .. }, Found::Sum(sum)) => {
            add(*sum, *delta, *min, *max).is_some()
        }
        (Part::Write { expected, .. } | Part::GuardRecord { expected, .. }, Found::Slot(slot)) => {
            meets(expected, live(slot))
        }
        _ => false,
    }
}

/// The one effect of the mutations under one operation id, and what refusals found.
fn mutation(sends: &[&Operation]) -> Vec<Call<RecordOp>> {
    let mut calls = Vec::new();
    let done = sends.iter().filter(|one| one.answer().is_some());
    let done = done.min_by_key(|one| one.returned.map_or(u64::MAX, |end| end.seq));
    let unknown = |one: &&&Operation| matches!(one.outcome, Outcome::Unknown(_));
    let first = sends.iter().find(|one| one.answer().is_some() || unknown(one));
    if let (Some(first), Some(effect)) = (first, done.or(first)) {
        let mut call = match done {
            Some(done) => answered(done, RecordOp::Write(change(effect))),
            None => open(first, RecordOp::Write(change(effect))),
        };
        call.invoked = first.invoked.seq;
        calls.push(call);
    }
    for operation in sends {
        let Outcome::Refused(refusals) = &operation.outcome else { continue };
        calls.extend(refusals.iter().filter_map(|refusal| match &refusal.found {
            Found::Slot(slot) => {
                let op = RecordOp::Found { slot: slot.clone(), during: span(operation) };
                Some(answered(operation, op))
            }
            _ => None,
        }));
    }
    calls
}

fn change(operation: &Operation) -> Write {
    let (expected, change) = match &operation.action {
        Action::Mutate { expected, change, .. } => (vec![*expected], Some(change.clone())),
        _ => (Vec::new(), None),
    };
    let (revision, value) = match operation.answer() {
        Some(Answer::Mutated { revision, value }) => (*revision, value.clone()),
        _ => (None, None),
    };
    Write { expected, change, expires: None, at: None, revision: revision.map(Some), value }
}
