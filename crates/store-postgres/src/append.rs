//! Append fast path: a commit of one append, optionally fenced by leases, as a single statement.
//!
//! The server judges and writes such a commit in one statement, by itself or in a batch with others
//! of its kind: one round trip. The statement only checks that the stream is open and as expected,
//! and that the leases are held. If so, the events are written. If not, or if an event id was used
//! before, nothing is written, and the commit takes the [general path](crate::commit), which
//! produces the answer. So the meaning of a commit stays in one place.

mod batch;

use std::collections::HashSet;

use tidelock_store::{
    AfterAppend, Append, Appended, Commit, CommitOutcome, Committed, ExpectedVersion, LeaseToken,
    Position, Result, StoreError, StreamName, Timestamp, Topic, Version,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::commit::{Judged, not_replicated};
use crate::error::{commit_failed, failed, is_race};
use crate::session::{Parameters, Session};
use crate::statement::Statement;
use batch::Batch;

/// A stream, its expected version, and an event.
static ONE: [Type; 6] = [Type::TEXT, Type::INT8, Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT];

/// One event to an existing stream, the most common commit: what `tidelock.append_one` does, as one
/// plain statement. It is faster than a function that has to start several. But it takes longer to
/// plan than it saves, so it is used only on connections that keep their plans.
///
/// The statement reads as of its start. If it had to wait for the stream's row, the newest event
/// from which it takes its time is one from before the wait: two overlapping commits may be dated
/// in any order.
static APPEND_NEXT: Statement = Statement::new(
    "WITH stream AS (
         UPDATE tidelock.streams s SET version = s.version + 1, forget_at = NULL
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

/// One event to each of many existing streams, named once and sorted. Returns the moment, then the
/// streams that were as expected (numbered from 1), their new versions, and the positions of their
/// events, all in the same order; nothing if none was.
///
/// An aggregate over all changed rows takes the ticket, so after the last of their locks was
/// acquired; and a position is drawn only for a row that was joined to the ticket.
static APPEND_NEXT_OF_EACH: Statement = Statement::new(
    "WITH moved AS (
         UPDATE tidelock.streams s SET version = s.version + 1, forget_at = NULL
         FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY
             AS n (name, expected, id, type, payload, metadata, nth)
         WHERE s.name = n.name AND NOT s.closed AND (s.version = n.expected OR n.expected = -2)
         RETURNING n.nth, n.name, s.version, n.id, n.type, n.payload, n.metadata),
     ticket AS MATERIALIZED (
         SELECT a.nths, a.versions, tidelock.take_ticket(a.last) AS taken,
                greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at) AS moment
         FROM (SELECT array_agg(nth) AS nths, array_agg(version) AS versions,
                      pg_sequence_last_value('tidelock.positions') AS last FROM moved) a
         CROSS JOIN tidelock.meta m
         LEFT JOIN LATERAL (
             SELECT e.recorded_at FROM tidelock.events e ORDER BY e.position DESC LIMIT 1) e ON true
         WHERE m.one AND a.nths IS NOT NULL),
     placed AS (
         INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
         SELECT nextval('tidelock.positions'), v.name, v.version, v.id, v.type, v.payload, v.metadata, t.moment
         FROM ticket t CROSS JOIN moved v WHERE t.taken
         RETURNING position)
     SELECT t.moment || t.nths || t.versions || (SELECT array_agg(position) FROM placed) FROM ticket t",
    &[
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
);
static APPEND_ONE: Statement =
    Statement::new("SELECT tidelock.append_one($1, $2, $3, $4, $5, $6)", &ONE);
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

/// An append, and the leases that fence it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a> {
    append: &'a Append,
    fences: &'a [LeaseToken],
}

impl Plain<'_> {
    /// Whether it is one event to an existing stream, without a lease.
    fn is_next(self) -> bool {
        let must_be_there =
            matches!(self.append.expected, ExpectedVersion::Exact(_) | ExpectedVersion::Exists);
        must_be_there && self.append.events.len() == 1 && self.fences.is_empty()
    }
}

/// The commit's append, if that is all that the commit writes.
pub(crate) fn only_append(commit: &Commit) -> Option<Plain<'_>> {
    let append = commit.appends.first()?;
    let plain = commit.parts() == 1 + commit.fences.len() && commit.id.is_none();
    let plain = plain && append.then == AfterAppend::StayOpen && !append.events.is_empty();
    plain.then_some(Plain { append, fences: &commit.fences })
}

/// The commits that can share a batch: plain appends, each to another stream and with other events.
pub(crate) fn can_go_together<'a>(commits: &[&'a Commit]) -> Vec<bool> {
    let (mut streams, mut events): (HashSet<&StreamName>, HashSet<_>) = Default::default();
    let mut fits = |plain: Plain<'a>| {
        streams.insert(&plain.append.stream)
            && plain.append.events.iter().all(|event| events.insert(event.id))
    };
    commits.iter().map(|commit| only_append(commit).is_some_and(&mut fits)).collect()
}

/// Makes one plain append; none if it must take the general path.
pub(crate) async fn append(session: &Session, plain: Plain<'_>) -> Result<Option<Judged>> {
    let append = plain.append;
    let ([event], []) = (&append.events[..], plain.fences) else {
        return Ok(append_together(session, &[plain]).await?.pop().flatten());
    };
    let (name, expected) = (append.stream.as_str(), code(append.expected));
    let id = Uuid::from_bytes(*event.id.as_bytes());
    let (event_type, payload, metadata) =
        (event.event_type.as_str(), event.payload.as_str(), event.metadata.as_str());
    let statement =
        if plain.is_next() && session.keeps_plans() { &APPEND_NEXT } else { &APPEND_ONE };
    match send(session, statement, &[&name, &expected, &id, &event_type, &payload, &metadata])
        .await?
    {
        Some(numbers) => Placed::read(&numbers, 1)?.judge(0, append),
        None => Ok(None),
    }
}

/// Makes plain appends to different streams; for each in turn, none if it must take the general
/// path.
pub(crate) async fn append_together(
    session: &Session,
    appends: &[Plain<'_>],
) -> Result<Vec<Option<Judged>>> {
    let mut order: Vec<usize> = (0..appends.len()).collect();
    order.sort_by_key(|at| &appends[*at].append.stream);
    let sorted: Vec<Plain<'_>> = order.iter().map(|at| appends[*at]).collect();
    let mut answers: Vec<Option<Judged>> = appends.iter().map(|_| None).collect();
    let Some(numbers) = send_together(session, &sorted).await? else {
        return Ok(answers);
    };
    let mut placed = Placed::read(&numbers, appends.len())?;
    for (nth, at) in order.into_iter().enumerate() {
        answers[at] = placed.judge(nth, appends[at].append)?;
    }
    Ok(answers)
}

/// Sends appends that are sorted by stream; returns the numbers.
async fn send_together(session: &Session, sorted: &[Plain<'_>]) -> Result<Option<Vec<i64>>> {
    let batch = Batch::of(sorted);
    if !session.keeps_plans() || !sorted.iter().all(|plain| plain.is_next()) {
        return send(session, &APPEND_MANY, &batch.parameters()).await;
    }
    let numbers = send(session, &APPEND_NEXT_OF_EACH, &batch.parameters_of_each()).await?;
    numbers.map(|numbers| spread(&numbers, sorted.len())).transpose()
}

/// Expands the numbers of the accepted appends to all appends, as in [`Placed`].
fn spread(numbers: &[i64], appends: usize) -> Result<Vec<i64>> {
    let (moment, rest) = numbers.split_first().ok_or_else(too_few)?;
    let (nths, rest) = rest.split_at(rest.len() / 3);
    let (versions, positions) = rest.split_at(nths.len());
    let mut all = vec![-1; 1 + 2 * appends];
    all[0] = *moment;
    for ((nth, version), position) in nths.iter().zip(versions).zip(positions) {
        let at = usize::try_from(*nth)
            .ok()
            .filter(|at| (1..=appends).contains(at))
            .ok_or_else(too_few)?;
        (all[at], all[appends + at]) = (version - 1, *position);
    }
    Ok(all)
}

/// Sends the statement and returns the numbers; none if the stream was not as expected, or if the
/// server rolled back because of a concurrent write.
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
    let placed =
        |position: Option<&i64>| Position::new(position.copied().unwrap_or_default() as u64);
    let version = Version::new(before + append.events.len() as u64)?;
    let positions = Some((placed(positions.first())?, placed(positions.last())?));
    let appended = Appended { stream: append.stream.clone(), version, positions, replayed: false };
    let committed = Committed { at, appends: vec![appended], writes: Vec::new() };
    Ok(Judged { outcome: Ok(CommitOutcome::Committed(committed)), topics: vec![Topic::Log] })
}

/// Encodes an expectation as a number, for the statement that judges many.
fn code(expected: ExpectedVersion) -> i64 {
    match expected {
        ExpectedVersion::Any => -1,
        ExpectedVersion::Exists => -2,
        ExpectedVersion::NoStream => 0,
        ExpectedVersion::Exact(version) => version.get() as i64,
    }
}

/// The results of a batch of appends, in the order in which they were sent.
struct Placed<'a> {
    at: Timestamp,
    /// The version that each stream had; -1 if the append was refused.
    before: &'a [i64],
    /// The positions of the next append's events, and of all that follow.
    positions: &'a [i64],
}

impl<'a> Placed<'a> {
    fn read(numbers: &'a [i64], appends: usize) -> Result<Self> {
        let parts = numbers
            .split_first()
            .and_then(|(at, rest)| Some((at, rest.split_at_checked(appends)?)));
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
