//! Reactions: did every reaction handle every event exactly once, in order at each target, with its
//! effect always under one key; and is nothing blocked, behind or held? (REACT-1, REACT-6,
//! REACT-11, REACT-15)

use std::collections::{BTreeSet, HashMap};

use tidelock::reactions::TargetInfo;
use tidelock::store::{EventId, StoredEvent, StreamName};

use super::Inquiry;
use crate::finding::{Finding, Kind};
use crate::journal::Entry;
use crate::reaction::{Handled, Reaction};
use crate::reaction_audit::ReactionAudit;

/// A reaction and an event.
type Handling = (Reaction, EventId);

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let Some(reaction_audit) = &inquiry.evidence.reaction_audit else { return Vec::new() };
    let mut findings: Vec<Finding> = reaction_audit.targets.iter().filter_map(restless).collect();
    let counts = counts(inquiry, reaction_audit);
    let effects = effects(inquiry);
    for event in
        inquiry.evidence.feed.iter().filter(|event| inquiry.evidence.space.is_work(&event.stream))
    {
        for reaction in Reaction::ALL {
            let handling = (reaction, event.id);
            findings.extend(not_once(reaction, event, counts.get(&handling).copied().unwrap_or(0)));
            findings.extend(not_one_key(reaction, event, effects.get(&handling)));
        }
    }
    for (stream, handled) in &reaction_audit.handled {
        findings.extend(misplaced(inquiry, stream, handled));
    }
    findings
}

/// A target with work left after all workers have ended.
fn restless(target: &TargetInfo) -> Option<Finding> {
    let name = format!("target {:?} of reaction {:?}", target.target, target.reaction);
    if target.blocked {
        return Some(Finding::new(Kind::Blocked, format!("{name}: {:?}", target.error)));
    }
    if let Some(holder) = &target.holder {
        let what = format!("{name} is held by {:?} until {}", holder.worker, holder.deadline);
        return Some(Finding::new(Kind::StuckLease, what));
    }
    let what = || format!("{name} is {} events behind", target.lag());
    (target.lag() > 0).then(|| Finding::new(Kind::Unhandled, what()))
}

/// The reaction whose handlers write to this stream.
fn reaction_of(inquiry: &Inquiry<'_>, stream: &StreamName) -> Option<Reaction> {
    let writes_to = |reaction: &Reaction| {
        stream.as_str().starts_with(&inquiry.evidence.space.handled_by(*reaction))
    };
    Reaction::ALL.into_iter().find(writes_to)
}

/// The event that a handler recorded, if this is such a record.
fn handled(event: &StoredEvent) -> Option<EventId> {
    event.payload.to::<Handled>().ok().map(|handled| handled.event)
}

fn counts(inquiry: &Inquiry<'_>, reaction_audit: &ReactionAudit) -> HashMap<Handling, u64> {
    let mut counts = HashMap::new();
    for (stream, events) in &reaction_audit.handled {
        for event in events {
            if let Some(handling) = reaction_of(inquiry, stream).zip(handled(event)) {
                *counts.entry(handling).or_default() += 1;
            }
        }
    }
    counts
}

/// The keys of every effect, over all workers.
fn effects<'a>(inquiry: &Inquiry<'a>) -> HashMap<Handling, BTreeSet<&'a str>> {
    let mut effects: HashMap<Handling, BTreeSet<&str>> = HashMap::new();
    for entry in inquiry.evidence.journals.iter().flat_map(|(_, entries)| entries) {
        if let Entry::Effect { reaction, event, key } = entry {
            effects.entry((*reaction, *event)).or_default().insert(key);
        }
    }
    effects
}

fn not_once(reaction: Reaction, event: &StoredEvent, count: u64) -> Option<Finding> {
    let kind = match count {
        0 => Kind::Unhandled,
        1 => return None,
        _ => Kind::HandledTwice,
    };
    Some(Finding::new(kind, format!("{} by {}, {count} times", place(event), reaction.name())))
}

fn not_one_key(
    reaction: Reaction,
    event: &StoredEvent,
    keys: Option<&BTreeSet<&str>>,
) -> Option<Finding> {
    let count = keys.map_or(0, BTreeSet::len);
    let what = || format!("{} by {}: {count} keys, {keys:?}", place(event), reaction.name());
    (count != 1).then(|| Finding::new(Kind::WrongEffect, what()))
}

/// Events handled at the wrong target, or before an earlier one.
fn misplaced(inquiry: &Inquiry<'_>, stream: &StreamName, events: &[StoredEvent]) -> Vec<Finding> {
    let space = &inquiry.evidence.space;
    let (mut findings, mut last) = (Vec::new(), None);
    for event in events {
        let cause = handled(event).and_then(|id| inquiry.there.get(&id));
        let belongs = |cause: &&&StoredEvent| {
            reaction_of(inquiry, stream)
                .is_some_and(|r| space.handled(r, &r.target(cause)) == *stream)
        };
        let Some(cause) = cause.filter(belongs) else {
            let what = format!(
                "event {} of stream {stream:?} says that something strange was handled",
                event.id
            );
            findings.push(Finding::new(Kind::Unexplained, what));
            continue;
        };
        if last.is_some_and(|last| cause.position < last) {
            let what = format!("{} was handled late, as {stream:?} has it", place(cause));
            findings.push(Finding::new(Kind::OutOfOrder, what));
        }
        last = Some(cause.position);
    }
    findings
}

fn place(event: &StoredEvent) -> String {
    format!("event {}, version {} of stream {:?}", event.id, event.version, event.stream)
}
