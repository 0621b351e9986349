//! From the types of the store to those of a history.

use std::time::Duration;

use tidelock::Timestamp;
use tidelock::store::{
    self, AfterAppend, AfterTrim, CommitOutcome, Committed, ExpectedRevision, ExpectedVersion,
    Guard, ItemRef, Lease, RecordWrite, Revision, StoredEvent, StreamPage, StreamState, When,
};

use super::{
    Answer, Change, Commit, EventRef, Expected, Expiry, Found, Grant, Outcome, Part, PartAnswer,
    Refusal, Slot, StreamRead,
};

/// What a commit asks. Its parts keep their order: appends, writes, settlements, fences, guards,
/// trims, then one part for each wake and each restored item.
pub fn commit(from: &store::Commit) -> Commit {
    let appends = from.appends.iter().map(|append| Part::Append {
        stream: append.stream.to_string(),
        expected: expected_version(append.expected),
        events: append.events.iter().map(|event| event.id.to_string()).collect(),
        close: append.then == AfterAppend::Close,
    });
    let settlements = from.settlements.iter().map(|settlement| Part::Settle {
        right: right(&settlement.lease.item),
        fence: settlement.lease.fence.get(),
    });
    let fences = from
        .fences
        .iter()
        .map(|lease| Part::Fence { right: right(&lease.item), fence: lease.fence.get() });
    let trims = from.trims.iter().map(|trim| Part::Trim {
        stream: trim.stream.to_string(),
        through: trim.through.get(),
        reopen: trim.then.reopens(),
        forget: matches!(trim.then, AfterTrim::Forget(_)),
    });
    let parts = appends
        .chain(from.writes.iter().map(write))
        .chain(settlements)
        .chain(fences)
        .chain(from.guards.iter().map(guard))
        .chain(trims)
        .chain(from.wakes.iter().map(|_| Part::Other))
        .chain(from.restores.iter().map(|_| Part::Other));
    Commit { id: from.id.map(|id| id.to_string()), parts: parts.collect() }
}

/// The outcome of a commit that was answered.
pub fn committed(asked: &store::Commit, outcome: &CommitOutcome) -> Outcome {
    match outcome {
        CommitOutcome::Committed(committed) => Outcome::Done(landed(asked, committed)),
        CommitOutcome::Conflict(conflict) => Outcome::Refused(refusals(asked, conflict)),
    }
}

/// The answer to a commit that landed.
pub fn landed(asked: &store::Commit, committed: &Committed) -> Answer {
    let appends = committed.appends.iter().map(|append| PartAnswer::Appended {
        version: append.version.get(),
        positions: append.positions.map(|(first, last)| (first.get(), last.get())),
        replayed: append.replayed,
    });
    let writes = committed.writes.iter().map(|written| PartAnswer::Written {
        revision: written.revision.map(Revision::get),
        sum: written.sum,
    });
    let answered = committed.appends.len() + committed.writes.len();
    let held = asked.parts().saturating_sub(answered);
    let parts = appends.chain(writes).chain((0..held).map(|_| PartAnswer::Held)).collect();
    Answer::Committed { at: micros(committed.at), parts }
}

/// The parts of a commit that were refused, by their index in [`commit`]'s order.
pub fn refusals(asked: &store::Commit, conflict: &store::Conflict) -> Vec<Refusal> {
    let refusal = |violation: &store::Violation| Refusal {
        part: index(asked, violation.part),
        found: found(&violation.reason),
    };
    conflict.violations.iter().map(refusal).collect()
}

fn index(asked: &store::Commit, part: store::Part) -> usize {
    let settlements = asked.appends.len() + asked.writes.len();
    let fences = settlements + asked.settlements.len();
    let guards = fences + asked.fences.len();
    let trims = guards + asked.guards.len();
    let restores = trims + asked.trims.len() + asked.wakes.len();
    match part {
        store::Part::Append(n) => n,
        store::Part::Write(n) => asked.appends.len() + n,
        store::Part::Settlement(n) => settlements + n,
        store::Part::Fence(n) => fences + n,
        store::Part::Guard(n) => guards + n,
        store::Part::Trim(n) => trims + n,
        store::Part::Restore(n) => restores + n,
    }
}

fn found(reason: &store::ViolationReason) -> Found {
    use store::ViolationReason as Reason;
    match reason {
        Reason::Stream { found, .. } | Reason::Untrimmable { found, .. } => stream(*found),
        Reason::Closed { version, .. } => stream(StreamState::Closed(*version)),
        Reason::Record { found, .. } => Found::Slot(slot(found)),
        Reason::Bound { found, .. } => Found::Sum(*found),
        Reason::LeaseLost { .. } => Found::Lost,
        other => Found::Other(format!("{other:?}")),
    }
}

fn stream(state: StreamState) -> Found {
    let closed = matches!(state, StreamState::Closed(_));
    Found::Stream { version: state.version().map(store::Version::get), closed }
}

fn expected_version(expected: ExpectedVersion) -> Expected {
    match expected {
        ExpectedVersion::Any => Expected::Any,
        ExpectedVersion::NoStream => Expected::Absent,
        ExpectedVersion::Exists => Expected::Exists,
        ExpectedVersion::Exact(version) => Expected::Exactly(version.get()),
    }
}

fn expected_revision(expected: ExpectedRevision) -> Expected {
    match expected {
        ExpectedRevision::Any => Expected::Any,
        ExpectedRevision::Absent => Expected::Absent,
        ExpectedRevision::Exists => Expected::Exists,
        ExpectedRevision::Revision(revision) => Expected::Exactly(revision.get()),
    }
}

fn guard(guard: &Guard) -> Part {
    match guard {
        Guard::Stream { stream, expected } => {
            Part::GuardStream { stream: stream.to_string(), expected: expected_version(*expected) }
        }
        Guard::Record { key, expected } => {
            Part::GuardRecord { key: key.to_string(), expected: expected_revision(*expected) }
        }
    }
}

fn write(write: &RecordWrite) -> Part {
    let (change, expires) = match &write.change {
        store::Change::Put { value, expires } => (Change::Put(value.as_str().to_owned()), *expires),
        store::Change::Add { delta, within, expires } => {
            (Change::Add { delta: *delta, min: within.min, max: within.max }, *expires)
        }
        store::Change::Rate(rate) => {
            let micros = |of: Duration| i64::try_from(of.as_micros()).unwrap_or(i64::MAX);
            (Change::Rate { cost: micros(rate.cost), burst: micros(rate.burst) }, None)
        }
        store::Change::Edit { edit, expires } => {
            let edit = serde_json::to_string(edit).expect("an edit can be written");
            (Change::Edit(edit), *expires)
        }
        store::Change::Delete => (Change::Delete, None),
        other => unreachable!("no client asks for {other:?}"),
    };
    let expires = expires.map(|when| match when {
        When::At(at) => Expiry::At(micros(at)),
        When::In(after) => Expiry::In(i64::try_from(after.as_micros()).unwrap_or(i64::MAX)),
    });
    let (key, expected) = (write.key.to_string(), expected_revision(write.expected));
    Part::Write { key, expected, change, expires }
}

/// A record as it was read.
pub fn slot(slot: &store::Slot) -> Slot {
    match slot {
        store::Slot::Absent => Slot::Absent,
        store::Slot::Deleted(revision) => Slot::Deleted(revision.get()),
        store::Slot::Live(record) => Slot::Live {
            revision: record.revision.get(),
            value: record.value.as_str().to_owned(),
            expires: record.expires_at.map(micros),
        },
    }
}

/// An event as it was read.
pub fn event(event: &StoredEvent) -> EventRef {
    EventRef {
        id: event.id.to_string(),
        stream: event.stream.to_string(),
        version: event.version.get(),
        position: event.position.get(),
    }
}

/// A page of a stream that was read forward.
pub fn stream_read(page: &StreamPage) -> StreamRead {
    StreamRead {
        events: page.events.iter().map(event).collect(),
        end: page.next.is_none(),
        version: page.state.version().map(store::Version::get),
        closed: matches!(page.state, StreamState::Closed(_)),
    }
}

/// A lease that was granted at this moment.
pub fn grant(lease: &Lease, at: Timestamp) -> Grant {
    Grant {
        right: right(&lease.item),
        fence: lease.fence.get(),
        since: micros(at),
        until: micros(lease.deadline),
    }
}

/// The name of the right to work on an item.
pub fn right(item: &ItemRef) -> String {
    format!("{}/{}", item.queue, item.key)
}

/// The number of a moment of the store's clock.
pub fn micros(at: Timestamp) -> i64 {
    at.micros()
}
