//! Numbers: positions, versions, revisions and fences name one thing each, whatever epoch they are
//! from, and streams have no gaps.
//!
//! Linear in the events that were read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use super::cases::{Case, trimmed};
use super::{Inquiry, Report};
use crate::history::{
    Action, Answer, Change, EventRef, Grant, Outcome, Part, PartAnswer, StreamRead,
};

/// Checks that no number is used twice.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    events(inquiry, report);
    stream_reads(inquiry, report);
    revisions(inquiry, report);
    fences(inquiry, report);
}

/// What a number names.
struct Names<K, V>(HashMap<K, V>);

impl<K: Eq + Hash, V: PartialEq> Names<K, V> {
    fn new() -> Self {
        Self(HashMap::new())
    }

    /// Notes what the number names, and returns what it names already, if that is something else.
    fn give(&mut self, number: K, what: V) -> Option<&V> {
        match self.0.entry(number) {
            Entry::Vacant(entry) => {
                entry.insert(what);
                None
            }
            Entry::Occupied(entry) => {
                Some(entry.into_mut()).filter(|known| **known != what).map(|known| &*known)
            }
        }
    }
}

/// Every event that any answer names.
pub(super) fn seen<'a>(inquiry: &Inquiry<'a>) -> impl Iterator<Item = &'a EventRef> {
    let answers = inquiry.history.operations.iter().filter_map(|one| one.answer());
    let read = answers.flat_map(|answer| match answer {
        Answer::Stream(StreamRead { events, .. }) | Answer::Page { events, .. } => {
            events.as_slice()
        }
        _ => &[],
    });
    let streams = inquiry.audit.streams.values().flat_map(|stream| &stream.events);
    read.chain(inquiry.audit.feed.iter().flatten()).chain(streams)
}

/// The places of events.
struct Events<'a> {
    ids: Names<&'a str, (&'a str, u64)>,
    versions: Names<(&'a str, u64), &'a str>,
    positions: Names<u64, &'a str>,
}

impl<'a> Events<'a> {
    fn note(
        &mut self,
        id: &'a str,
        stream: &'a str,
        version: u64,
        position: Option<u64>,
        report: &mut Report,
    ) {
        let place = (stream, version);
        if let Some(other) = self.versions.give(place, id) {
            let story = format!("version {version} of {stream} is event {other} and event {id}");
            report.add("number reused", story);
        }
        if let Some(other) = self.ids.give(id, place) {
            let story = format!("event {id} is in {place:?} and in {other:?}");
            report.add("event in two places", story);
        }
        let Some(position) = position else { return };
        if let Some(other) = self.positions.give(position, id) {
            let story = format!("position {position} is event {other} and event {id}");
            report.add("number reused", story);
        }
    }
}

fn events(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut events = Events { ids: Names::new(), versions: Names::new(), positions: Names::new() };
    for EventRef { id, stream, version, position } in seen(inquiry) {
        events.note(id, stream, *version, Some(*position), report);
    }
    for (part, answer) in inquiry.cases.iter().flat_map(Case::parts) {
        let Part::Append { stream, events: appended, .. } = part else { continue };
        let PartAnswer::Appended { version, positions, .. } = answer else { continue };
        let count = appended.len() as u64;
        for (nth, id) in (1..).zip(appended) {
            let position = positions.and_then(|(first, last)| match nth {
                1 => Some(first),
                nth if nth == count => Some(last),
                _ => None,
            });
            events.note(id, stream, (version + nth).saturating_sub(count), position, report);
        }
    }
}

/// A page of a stream begins where it was asked to, has no gaps, and says when it is at the end.
fn stream_reads(inquiry: &Inquiry<'_>, report: &mut Report) {
    let trimmed = trimmed(inquiry.history);
    for operation in &inquiry.history.operations {
        let (Action::ReadStream { stream, after }, Outcome::Done(Answer::Stream(read))) =
            (&operation.action, &operation.outcome)
        else {
            continue;
        };
        let first = read.events.first().map_or(*after + 1, |event| event.version);
        let begins = first == after + 1 || *after < first && trimmed.contains(stream.as_str());
        let is_whole = (first..).zip(&read.events).all(|(version, event)| event.version == version);
        let last = read.events.last().map_or(*after, |event| event.version);
        let ends = !read.end
            || read.version.is_none_or(|version| last >= version)
            || read.events.is_empty() && trimmed.contains(stream.as_str());
        // A stream that begins above forgotten versions is read from there.
        let begins = begins || *after == 0;
        if !(begins && is_whole && ends) {
            let versions: Vec<u64> = read.events.iter().map(|event| event.version).collect();
            report.add(
                "gap in a stream",
                format!("{} got {versions:?} of {:?}", operation.name(), read.version),
            );
        }
    }
}

fn revisions(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut writers: Names<(&str, u64), &str> = Names::new();
    for case in &inquiry.cases {
        for (part, answer) in case.parts() {
            let Part::Write { key, change, .. } = part else { continue };
            let PartAnswer::Written { revision: Some(revision), .. } = answer else { continue };
            if *change == Change::Delete {
                // The deletion of what is not there has the revision that it found.
                continue;
            }
            if let Some(other) = writers.give((key, *revision), &case.name) {
                let story =
                    format!("revision {revision} of {key} is of {other} and of {}", case.name);
                report.add("number reused", story);
            }
        }
    }
}

fn fences(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut holders: Names<(&str, u64), &str> = Names::new();
    for operation in &inquiry.history.operations {
        let (Action::Acquire { holder, .. }, Outcome::Done(Answer::Granted(grants))) =
            (&operation.action, &operation.outcome)
        else {
            continue;
        };
        for grant in grants {
            if let Some(other) = holders.give((&grant.right, grant.fence), holder) {
                let Grant { right, fence, .. } = grant;
                let story = format!("fence {fence} of {right} is of {other} and of {holder}");
                report.add("number reused", story);
            }
        }
    }
}
