//! Append path: commits of one append each, optionally fenced by leases, as a single statement.
//!
//! The server judges and writes them in one round trip. The statement only checks that each stream
//! is open and as expected, and that the leases are held. If so, the events are written. If not, or
//! if an event id was used before, nothing is written, and the commit takes the [general
//! path](super::general), which produces the answer.

mod columns;

use tidelock_store::{
    AfterAppend, Append, Appended, Commit, CommitOutcome, Committed, ExpectedVersion, Position,
    Result, StoreError, Timestamp, Topic, Version,
};

use super::{FastVerdicts, Verdict, query_committing};
use crate::connect::{Parameters, Session};
use crate::error::{corrupt, failed};
use crate::statement::{Statement, statement};
use columns::Columns;

/// One event to an existing stream, the most common commit: one plain statement,
/// which is faster than a function that has to start several. But it takes longer to plan than it
/// saves, so it is used only on connections that keep their plans.
///
/// The statement reads as of its start. If it had to wait for the stream's row, the newest event
/// from which it takes its time is one from before the wait: two overlapping commits may be dated
/// in any order.
static APPEND_NEXT: Statement = statement!(file "append_next": TEXT, INT8, UUID, TEXT, TEXT, TEXT);

/// One event to each of many existing streams, named once and sorted. Returns the moment, then the
/// streams that were as expected (numbered from 1), their new versions, and the positions of their
/// events, all in the same order; nothing if none was.
///
/// An aggregate over all changed rows takes the ticket, so after the last of their locks was
/// acquired; and a position is drawn only for a row that was joined to the ticket.
static APPEND_NEXT_OF_EACH: Statement = statement!(file "append_next_of_each":
    TEXT_ARRAY, INT8_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY);

/// Any number of events to each of many streams, which may be new, and leases that fence them.
/// Returns the moment, the version that each stream had (-1 if its append was refused), and a
/// position for each event; nothing if none was accepted.
static APPEND_MANY: Statement = statement!(
    "SELECT tidelock.append_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)":
    TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT4_ARRAY, INT8_ARRAY, TEXT_ARRAY, UUID_ARRAY, TEXT_ARRAY,
    TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY);

/// Whether a commit is one append to an open stream, without an id.
pub(super) fn is_plain(commit: &Commit) -> bool {
    let only_append = commit.parts() == 1 + commit.fences.len() && commit.id.is_none();
    commit.appends.first().is_some_and(|append| {
        only_append && append.then == AfterAppend::StayOpen && !append.events.is_empty()
    })
}

/// Whether it is one event to an existing stream, without a lease.
fn is_next(commit: &Commit) -> bool {
    let append = append_of(commit);
    let must_be_there =
        matches!(append.expected, ExpectedVersion::Exact(_) | ExpectedVersion::Exists);
    must_be_there && append.events.len() == 1 && commit.fences.is_empty()
}

fn append_of(commit: &Commit) -> &Append {
    commit.appends.first().expect("a commit of the append path has an append")
}

/// Makes plain appends to different streams; for each in turn, none if it must take the general
/// path.
pub(super) async fn append(session: &Session, commits: &[&Commit]) -> Result<FastVerdicts> {
    let mut order: Vec<usize> = (0..commits.len()).collect();
    order.sort_by_key(|at| &append_of(commits[*at]).stream);
    let sorted: Vec<&Commit> = order.iter().map(|at| commits[*at]).collect();
    let mut verdicts: FastVerdicts = commits.iter().map(|_| None).collect();
    if let Some(placed) = send(session, &sorted).await? {
        for (at, place) in order.into_iter().zip(&placed.places) {
            let append = append_of(commits[at]);
            verdicts[at] = place.as_ref().map(|place| place.verdict(append, placed.at));
        }
    }
    Ok(verdicts)
}

/// Sends appends that are sorted by stream; none if the server accepted none of them.
async fn send(session: &Session, sorted: &[&Commit]) -> Result<Option<Placed>> {
    let columns = Columns::of(sorted);
    let next = session.keeps_plans() && sorted.iter().all(|commit| is_next(commit));
    let placed = match sorted.len() {
        1 if next => numbers(session, &APPEND_NEXT, &columns.of_the_first())
            .await?
            .map(|numbers| Placed::all(&numbers, sorted)),
        _ if next => numbers(session, &APPEND_NEXT_OF_EACH, &columns.of_each())
            .await?
            .map(|numbers| Placed::accepted(&numbers, sorted.len())),
        _ => numbers(session, &APPEND_MANY, &columns.parameters())
            .await?
            .map(|numbers| Placed::all(&numbers, sorted)),
    };
    placed.transpose().map_err(corrupt)
}

/// The numbers that a statement returns; none if it appended nothing.
async fn numbers(
    session: &Session,
    statement: &'static Statement,
    with: Parameters<'_>,
) -> Result<Option<Vec<i64>>> {
    let rows = query_committing(session, statement, with).await?.unwrap_or_default();
    rows.first().map_or(Ok(None), |row| row.try_get(0)).map_err(failed)
}

/// Encodes an expectation as a number, for the statements that compare versions.
fn code(expected: ExpectedVersion) -> i64 {
    match expected {
        ExpectedVersion::Any => -1,
        ExpectedVersion::Exists => -2,
        ExpectedVersion::NoStream => 0,
        ExpectedVersion::Exact(version) => version.get() as i64,
    }
}

/// The decoded answer to a batch of appends, in the order in which they were sent.
struct Placed {
    at: Timestamp,
    /// None for a refused append.
    places: Vec<Option<Place>>,
}

/// Where the events of an append are.
struct Place {
    /// The version of the stream's last event.
    version: Version,
    /// The first and the last position.
    positions: (Position, Position),
}

impl Placed {
    /// Decodes an answer about all appends: the moment, the version that each stream had (-1 for a
    /// refused append), the position of each event.
    fn all(numbers: &[i64], sorted: &[&Commit]) -> Result<Self> {
        let (at, rest) = numbers.split_first().ok_or_else(wrong_count)?;
        let (before, mut positions) =
            rest.split_at_checked(sorted.len()).ok_or_else(wrong_count)?;
        let mut places = Vec::with_capacity(sorted.len());
        for (before, commit) in before.iter().zip(sorted) {
            let events = append_of(commit).events.len();
            let (own, left) = positions.split_at_checked(events).ok_or_else(wrong_count)?;
            positions = left;
            let accepted = *before >= 0;
            places.push(accepted.then(|| Place::of(before + own.len() as i64, own)).transpose()?);
        }
        if positions.is_empty() {
            Ok(Self { at: Timestamp::from_micros(*at)?, places })
        } else {
            Err(wrong_count())
        }
    }

    /// Decodes an answer about the accepted ones of appends of one event: the moment, their
    /// numbers (counted from 1), their streams' new versions, the positions.
    fn accepted(numbers: &[i64], appends: usize) -> Result<Self> {
        let (at, rest) = numbers.split_first().ok_or_else(wrong_count)?;
        let (nths, rest) = rest.split_at(rest.len() / 3);
        let (versions, positions) = rest.split_at(nths.len());
        if positions.len() != nths.len() {
            return Err(wrong_count());
        }
        let mut places: Vec<Option<Place>> = (0..appends).map(|_| None).collect();
        for ((nth, version), position) in nths.iter().zip(versions).zip(positions) {
            let place =
                usize::try_from(*nth).ok().and_then(|nth| places.get_mut(nth.checked_sub(1)?));
            *place.ok_or_else(wrong_count)? = Some(Place::of(*version, &[*position])?);
        }
        Ok(Self { at: Timestamp::from_micros(*at)?, places })
    }
}

impl Place {
    fn of(version: i64, positions: &[i64]) -> Result<Self> {
        let position = |at: Option<&i64>| Position::new(at.copied().unwrap_or_default() as u64);
        Ok(Self {
            version: Version::new(version as u64)?,
            positions: (position(positions.first())?, position(positions.last())?),
        })
    }

    fn verdict(&self, append: &Append, at: Timestamp) -> Verdict {
        let appended = Appended {
            stream: append.stream.clone(),
            version: self.version,
            positions: Some(self.positions),
            replayed: false,
        };
        let committed = Committed { at, appends: vec![appended], writes: Vec::new() };
        Verdict { outcome: Ok(CommitOutcome::Committed(committed)), topics: vec![Topic::Log] }
    }
}

fn wrong_count() -> StoreError {
    StoreError::corrupt("an append was answered by too few or too many numbers")
}
