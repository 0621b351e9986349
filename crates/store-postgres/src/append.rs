//! The short way for the most common commit: one append, under the fences of leases or none, and nothing else.
//!
//! Such a commit is judged and written by the server in one statement, alone or together with others of its kind: one
//! trip. The statement knows no more than whether the stream is as expected and open, and the leases stand. If so, the events are there; if
//! not, or if an event's id was used before, nothing is, and the commit goes [the long way](crate::commit), which finds
//! out what to answer. So the meaning of a commit is in one place all the same.

use std::collections::HashSet;

use tidelock_store::{
    AfterAppend, Append, Appended, Commit, CommitOutcome, Committed, ExpectedVersion, LeaseToken, Position,
    Result, StoreError, StreamName, Timestamp, Topic, Version,
};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::commit::{Judged, not_replicated};
use crate::error::{commit_failed, failed, is_race};
use crate::session::{Parameters, Session};
use crate::statement::Statement;

/// A stream, what is expected of it, and an event.
static ONE: [Type; 6] = [Type::TEXT, Type::INT8, Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT];

/// One event to a stream that must be there, the commonest commit of all: what `tidelock.append_one` does, as one plain statement. It
/// is quicker than a function that has to start several. But it takes longer to plan than it saves, so it is for connections that
/// keep their plans.
///
/// What is looked up here is as it was when the statement began. If it had to wait for the stream's row, the newest event that it
/// takes its date from is one before the wait: two commits that overlap are dated in any order.
static APPEND_NEXT: Statement = Statement::new(
    "WITH stream AS (
         UPDATE tidelock.streams s SET version = s.version + 1
         WHERE s.name = $1 AND NOT s.closed AND (s.version = $2 OR $2 = -2) RETURNING s.version)
     INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
         SELECT nextval('tidelock.positions'), $1, t.version, $3, $4, $5, $6,
                greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at)
         FROM (SELECT l.version, tidelock.take_ticket(l.last) AS taken
               FROM (SELECT version, pg_sequence_last_value('tidelock.positions') AS last FROM stream) l) t
         CROSS JOIN tidelock.meta m
         LEFT JOIN LATERAL (
             SELECT e.recorded_at FROM tidelock.events e ORDER BY e.position DESC LIMIT 1) e ON true
         WHERE m.one AND t.taken
     RETURNING ARRAY[recorded_at, version - 1, position]",
    &ONE,
);
static APPEND_ONE: Statement = Statement::new("SELECT tidelock.append_one($1, $2, $3, $4, $5, $6)", &ONE);
static APPEND_MANY: Statement = Statement::new(
    "SELECT tidelock.append_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    &[
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
    ],
);

/// An append, and the leases that must stand for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a> {
    append: &'a Append,
    fences: &'a [LeaseToken],
}

/// The append that is all that a commit writes, if that is so.
pub(crate) fn only_append(commit: &Commit) -> Option<Plain<'_>> {
    let append = commit.appends.first()?;
    let plain = commit.parts() == 1 + commit.fences.len() && commit.id.is_none();
    let plain = plain && append.then == AfterAppend::StayOpen && !append.events.is_empty();
    plain.then_some(Plain { append, fences: &commit.fences })
}

/// Those of the commits that can go together this way: plain appends, each to another stream and with other events.
pub(crate) fn can_go_together<'a>(commits: &[&'a Commit]) -> Vec<bool> {
    let (mut streams, mut events): (HashSet<&StreamName>, HashSet<_>) = Default::default();
    let mut fits = |plain: Plain<'a>| {
        streams.insert(&plain.append.stream)
            && plain.append.events.iter().all(|event| events.insert(event.id))
    };
    commits.iter().map(|commit| only_append(commit).is_some_and(&mut fits)).collect()
}

/// Makes one plain append; nothing if it must go the long way.
pub(crate) async fn append(session: &Session, plain: Plain<'_>) -> Result<Option<Judged>> {
    let append = plain.append;
    let ([event], []) = (&append.events[..], plain.fences) else {
        return Ok(append_together(session, &[plain]).await?.pop().flatten());
    };
    let (name, expected) = (append.stream.as_str(), code(append.expected));
    let id = Uuid::from_bytes(*event.id.as_bytes());
    let (event_type, payload, metadata) =
        (event.event_type.as_str(), event.payload.as_str(), event.metadata.as_str());
    let statement = if is_next(append) && session.keeps_plans() { &APPEND_NEXT } else { &APPEND_ONE };
    match send(session, statement, &[&name, &expected, &id, &event_type, &payload, &metadata]).await? {
        Some(numbers) => Placed::read(&numbers, 1)?.judge(0, append),
        None => Ok(None),
    }
}

/// Whether the stream must be there.
fn is_next(append: &Append) -> bool {
    matches!(append.expected, ExpectedVersion::Exact(_) | ExpectedVersion::Exists)
}

/// Makes plain appends to different streams; for each in turn, nothing if it must go the long way.
pub(crate) async fn append_together(session: &Session, appends: &[Plain<'_>]) -> Result<Vec<Option<Judged>>> {
    let mut order: Vec<usize> = (0..appends.len()).collect();
    order.sort_by_key(|at| &appends[*at].append.stream);
    let sorted: Vec<Plain<'_>> = order.iter().map(|at| appends[*at]).collect();
    let batch = Batch::of(&sorted);
    let mut answers: Vec<Option<Judged>> = appends.iter().map(|_| None).collect();
    let Some(numbers) = send(session, &APPEND_MANY, &batch.parameters()).await? else {
        return Ok(answers);
    };
    let mut placed = Placed::read(&numbers, appends.len())?;
    for (nth, at) in order.into_iter().enumerate() {
        answers[at] = placed.judge(nth, appends[at].append)?;
    }
    Ok(answers)
}

/// What came of it, as numbers; nothing if the stream was not as expected, or if others were in the way and the server undid it all.
async fn send(
    session: &Session,
    statement: &'static Statement,
    with: Parameters<'_>,
) -> Result<Option<Vec<i64>>> {
    let warnings = session.warnings();
    let rows = match session.query(statement, with).await {
        Err(error) if is_race(&error) => return Ok(None),
        answered => answered.map_err(commit_failed)?,
    };
    if session.warnings() > warnings {
        return Err(not_replicated());
    }
    rows.first().map_or(Ok(None), |row| row.try_get(0)).map_err(failed)
}

fn judged(append: &Append, before: u64, positions: &[i64], at: Timestamp) -> Result<Judged> {
    let placed = |position: Option<&i64>| Position::new(position.copied().unwrap_or_default() as u64);
    let version = Version::new(before + append.events.len() as u64)?;
    let positions = Some((placed(positions.first())?, placed(positions.last())?));
    let appended = Appended { stream: append.stream.clone(), version, positions, replayed: false };
    let committed = Committed { at, appends: vec![appended], writes: Vec::new() };
    Ok(Judged { outcome: Ok(CommitOutcome::Committed(committed)), topics: vec![Topic::Log] })
}

/// Events, as columns.
#[derive(Default)]
struct Events<'a> {
    ids: Vec<Uuid>,
    types: Vec<&'a str>,
    payloads: Vec<&'a str>,
    metadata: Vec<&'a str>,
}

impl<'a> Events<'a> {
    fn add(&mut self, append: &'a Append) {
        for event in &append.events {
            self.ids.push(Uuid::from_bytes(*event.id.as_bytes()));
            self.types.push(event.event_type.as_str());
            self.payloads.push(event.payload.as_str());
            self.metadata.push(event.metadata.as_str());
        }
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.ids, &self.types, &self.payloads, &self.metadata]
    }
}

/// Many appends, as columns.
#[derive(Default)]
struct Batch<'a> {
    names: Vec<&'a str>,
    expected: Vec<i64>,
    counts: Vec<i64>,
    /// Of each event: which append it belongs to, counted from 1.
    owners: Vec<i32>,
    /// Of each event: which of its append's it is, counted from 1.
    ordinals: Vec<i64>,
    streams: Vec<&'a str>,
    events: Events<'a>,
    leases: Leases<'a>,
}

/// Leases that must stand, as columns, sorted by item.
#[derive(Default)]
struct Leases<'a> {
    queues: Vec<&'a str>,
    items: Vec<&'a str>,
    fences: Vec<i64>,
}

impl<'a> Leases<'a> {
    fn of(mut tokens: Vec<&'a LeaseToken>) -> Self {
        tokens.sort_by_key(|token| &token.item);
        Self {
            queues: tokens.iter().map(|token| token.item.queue.as_str()).collect(),
            items: tokens.iter().map(|token| token.item.key.as_str()).collect(),
            fences: tokens.iter().map(|token| token.fence.get() as i64).collect(),
        }
    }
}

impl<'a> Batch<'a> {
    fn of(appends: &[Plain<'a>]) -> Self {
        let leases = Leases::of(appends.iter().flat_map(|plain| plain.fences).collect());
        let mut batch = Self { leases, ..Self::default() };
        for (owner, append) in (1..).zip(appends.iter().map(|plain| plain.append)) {
            let count = append.events.len() as i64;
            batch.names.push(append.stream.as_str());
            batch.expected.push(code(append.expected));
            batch.counts.push(count);
            for ordinal in 1..=count {
                batch.owners.push(owner);
                batch.ordinals.push(ordinal);
                batch.streams.push(append.stream.as_str());
            }
            batch.events.add(append);
        }
        batch
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut all: Vec<&(dyn ToSql + Sync)> =
            vec![&self.names, &self.expected, &self.counts, &self.owners, &self.ordinals, &self.streams];
        all.extend(self.events.parameters());
        all.extend::<[&(dyn ToSql + Sync); 3]>([
            &self.leases.queues,
            &self.leases.items,
            &self.leases.fences,
        ]);
        all
    }
}

/// An expectation as a number, for the statement that judges many.
fn code(expected: ExpectedVersion) -> i64 {
    match expected {
        ExpectedVersion::Any => -1,
        ExpectedVersion::Exists => -2,
        ExpectedVersion::NoStream => 0,
        ExpectedVersion::Exact(version) => version.get() as i64,
    }
}

/// What the appends of a batch came to, in the order in which they were sent.
struct Placed<'a> {
    at: Timestamp,
    /// The version that each stream had; -1 if the append was refused.
    before: &'a [i64],
    /// Of the next append's events, and of all that follow.
    positions: &'a [i64],
}

impl<'a> Placed<'a> {
    fn read(numbers: &'a [i64], appends: usize) -> Result<Self> {
        let parts = numbers.split_first().and_then(|(at, rest)| Some((at, rest.split_at_checked(appends)?)));
        let Some((moment, (before, positions))) = parts else {
            return Err(too_few());
        };
        Ok(Self { at: Timestamp::from_micros(*moment)?, before, positions })
    }

    fn judge(&mut self, nth: usize, append: &Append) -> Result<Option<Judged>> {
        let parts = self.positions.split_at_checked(append.events.len());
        let (positions, left) = parts.ok_or_else(too_few)?;
        self.positions = left;
        let Ok(before) = u64::try_from(self.before[nth]) else { return Ok(None) };
        judged(append, before, positions, self.at).map(Some)
    }
}

fn too_few() -> StoreError {
    StoreError::corrupt("an append was answered by too few numbers")
}
