//! Planning of streams: appends, tombstones and trims.

use super::ReadRows;
use crate::clock::Timestamp;
use crate::commit::{
    AfterTrim, Appended, Commit, Part, Trim, Violation, ViolationReason, stream_category,
};
use crate::error::{Result, StoreError};
use crate::log::{AfterAppend, Append, ExpectedVersion, StoredEvent, StreamState};
use crate::names::StreamName;
use crate::numbers::{Position, Version};

/// The row of a stream that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamRow {
    /// How many events it ever had.
    pub version: Version,
    /// The oldest remaining event; one past the version if there is none.
    pub first: Version,
    /// Whether it is closed.
    pub closed: bool,
    /// When the store forgets it if nothing is appended before. Only an empty stream has such a
    /// time.
    pub forget_at: Option<Timestamp>,
}

impl StreamRow {
    /// The stream as readers see it.
    pub fn state(&self) -> StreamState {
        if self.closed {
            StreamState::Closed(self.version)
        } else {
            StreamState::Open(self.version)
        }
    }

    /// The number of remaining events.
    pub fn count(&self) -> u64 {
        self.version.get() + 1 - self.first.get()
    }

    /// The oldest remaining event, if there is one.
    pub fn first_left(&self) -> Option<Version> {
        (self.first <= self.version).then_some(self.first)
    }
}

pub(super) fn state(row: Option<StreamRow>) -> StreamState {
    row.map_or(StreamState::Absent, |row| row.state())
}

#[derive(Debug, Default)]
pub(super) struct LogPlan {
    pub(super) appended: Vec<Appended>,
    pub(super) trims: Vec<(StreamName, Version)>,
    pub(super) streams: Vec<(StreamName, StreamRow)>,
    pub(super) events: Vec<StoredEvent>,
}

pub(super) fn plan(
    commit: &Commit,
    now: Timestamp,
    rows: &mut impl ReadRows,
    violations: &mut Vec<Violation>,
) -> Result<LogPlan> {
    let mut plan = LogPlan::default();
    for (at, append) in commit.appends.iter().enumerate() {
        let trim = commit.trims.iter().find(|trim| trim.stream == append.stream);
        match plan.append(append, trim, now, rows)? {
            Ok(appended) => plan.appended.push(appended),
            Err(reason) => violations.push(Violation { part: Part::Append(at), reason }),
        }
    }
    for (at, trim) in commit.trims.iter().enumerate() {
        let closing =
            commit.appends.iter().any(|a| a.stream == trim.stream && a.then == AfterAppend::Close);
        // Another commit may have reopened what an earlier attempt closed; only a close of this
        // commit counts.
        let replayed = plan.appended.iter().any(|a| a.stream == trim.stream && a.replayed);
        if let Err(reason) = plan.trim(trim, closing && !replayed, now, rows)? {
            violations.push(Violation { part: Part::Trim(at), reason });
        }
    }
    Ok(plan)
}

pub(super) fn guard(
    stream: &StreamName,
    expected: ExpectedVersion,
    rows: &mut impl ReadRows,
) -> Result<Option<ViolationReason>> {
    let found = state(rows.stream(stream)?);
    Ok((!found.meets(expected)).then(|| ViolationReason::Stream {
        stream: stream.clone(),
        expected,
        found,
    }))
}

impl LogPlan {
    fn append(
        &mut self,
        append: &Append,
        trim: Option<&Trim>,
        now: Timestamp,
        rows: &mut impl ReadRows,
    ) -> Result<Result<Appended, ViolationReason>> {
        let row = rows.stream(&append.stream)?;
        if let Some(appended) = earlier_append(append, rows)? {
            check_closed_before(append, row)?;
            return Ok(Ok(appended));
        }
        if let Err(reason) = judge(append, trim, state(row)) {
            return Ok(Err(reason));
        }
        let last =
            self.events.last().map_or_else(|| rows.last_position(), |event| Ok(event.position))?;
        // A new stream begins above the versions of the forgotten streams of its category.
        let base = match row {
            Some(row) => row.version.get(),
            None => rows.version_floor(stream_category(append.stream.as_str()))?,
        };
        let positions = self.add_events(append, base, last, now);
        let count = append.events.len() as u64;
        let version = Version::new(base + count)?;
        let first = row.map_or_else(|| Version::above(base), |row| row.first);
        let closed = closed_after(row.is_some_and(|row| row.closed), append, trim);
        let forget_at = row.and_then(|row| row.forget_at).filter(|_| count == 0);
        self.streams.push((append.stream.clone(), StreamRow { version, first, closed, forget_at }));
        Ok(Ok(Appended { stream: append.stream.clone(), version, positions, replayed: false }))
    }

    fn add_events(
        &mut self,
        append: &Append,
        base: u64,
        last: Position,
        now: Timestamp,
    ) -> Option<(Position, Position)> {
        let from = self.events.len();
        self.events.extend((1..).zip(&append.events).map(|(nth, event)| StoredEvent {
            id: event.id,
            stream: append.stream.clone(),
            version: Version::above(base + nth - 1),
            position: last.plus(nth),
            event_type: event.event_type.clone(),
            payload: event.payload.clone(),
            metadata: event.metadata.clone(),
            recorded_at: now,
        }));
        let added = &self.events[from..];
        Some((added.first()?.position, added.last()?.position))
    }

    fn trim(
        &mut self,
        trim: &Trim,
        closing: bool,
        now: Timestamp,
        rows: &mut impl ReadRows,
    ) -> Result<Result<(), ViolationReason>> {
        let before = rows.stream(&trim.stream)?;
        let row = before.filter(|row| (row.closed || closing) && trim.through <= row.version);
        let Some(row) = row else {
            let (stream, through) = (trim.stream.clone(), trim.through);
            return Ok(Err(ViolationReason::Untrimmable { stream, through, found: state(before) }));
        };
        let first = row.first.max(trim.through.plus(1));
        self.trims.push((trim.stream.clone(), trim.through));
        if !self.streams.iter().any(|(name, _)| *name == trim.stream) {
            let closed = !trim.then.reopens();
            self.streams.push((trim.stream.clone(), StreamRow { closed, ..row }));
        }
        let planned = self.streams.iter_mut().find(|(name, _)| *name == trim.stream);
        let (_, planned) = planned.expect("it was just put there");
        planned.first = first;
        planned.forget_at = match trim.then {
            AfterTrim::Forget(when) if planned.first_left().is_none() => Some(when.resolve(now)),
            _ => None,
        };
        Ok(Ok(()))
    }
}

fn judge(append: &Append, trim: Option<&Trim>, found: StreamState) -> Result<(), ViolationReason> {
    let stream = || append.stream.clone();
    if let StreamState::Closed(version) = found
        && !reopens(trim)
    {
        return Err(ViolationReason::Closed { stream: stream(), version });
    }
    if !found.meets(append.expected) {
        return Err(ViolationReason::Stream { stream: stream(), expected: append.expected, found });
    }
    if found == StreamState::Absent && append.events.is_empty() {
        // There is no stream to close.
        return Err(ViolationReason::Stream {
            stream: stream(),
            expected: ExpectedVersion::Exists,
            found,
        });
    }
    Ok(())
}

fn reopens(trim: Option<&Trim>) -> bool {
    trim.is_some_and(|trim| trim.then.reopens())
}

/// A closed stream is reopened before the append, an open one after it was closed.
fn closed_after(closed_before: bool, append: &Append, trim: Option<&Trim>) -> bool {
    let closes = append.then == AfterAppend::Close;
    if closed_before { closes || !reopens(trim) } else { closes && !reopens(trim) }
}

/// Refuses to assume a close that did not come with the events the first time, or that was undone
/// since.
fn check_closed_before(append: &Append, row: Option<StreamRow>) -> Result<()> {
    if append.then == AfterAppend::StayOpen || row.is_some_and(|row| row.closed) {
        return Ok(());
    }
    Err(StoreError::mismatch(format!(
        "append to stream {:?}: its events are there already and the stream is open; close it by an append of no events",
        append.stream
    )))
}

/// Looks for these events in the store. Deduplication comes before the version check, so that a
/// retry after an unknown outcome returns the first attempt's result.
fn earlier_append(append: &Append, rows: &mut impl ReadRows) -> Result<Option<Appended>> {
    let mut earlier: Vec<StoredEvent> = Vec::new();
    for new in &append.events {
        let Some(found) = rows.event(new.id)? else { continue };
        if !found.is_same_fact(&append.stream, new) {
            let other = if found.stream == append.stream {
                "with other content"
            } else {
                "which is another stream"
            };
            return Err(StoreError::mismatch(format!(
                "append to stream {:?}: event id {} was used before, for version {} of stream {:?}, {other}",
                append.stream, new.id, found.version, found.stream
            )));
        }
        earlier.push(found);
    }
    let Some(last) = earlier.last() else { return Ok(None) };
    let in_a_row = earlier.windows(2).all(|pair| pair[1].version == pair[0].version.plus(1));
    if earlier.len() < append.events.len() || !in_a_row {
        return Err(StoreError::mismatch(format!(
            "append to stream {:?}: {} of its {} event ids were used before, but not for this append",
            append.stream,
            earlier.len(),
            append.events.len()
        )));
    }
    let positions = Some((earlier[0].position, last.position));
    Ok(Some(Appended {
        stream: append.stream.clone(),
        version: last.version,
        positions,
        replayed: true,
    }))
}
