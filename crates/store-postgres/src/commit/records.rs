//! Records path: commits that only write records, as a single statement.
//!
//! The server judges and writes them in one round trip. The statement compares revisions and
//! assigns the next (compare-and-swap); it never reads a value. What it accepts is written. What it
//! refuses is judged here by the rule that all stores share, from the rows that it found. All other
//! cases (a commit made before under its id, a record that expired a moment ago, concurrent writes)
//! take the [general path](super::general).

mod probe;

use std::collections::HashMap;

use tidelock_store::plan::{self, Decided};
use tidelock_store::{
    Change, Commit, CommitOutcome, Committed, ExpectedRevision, RecordWrite, Result, StoreError,
    Timestamp, Topic, When, Written, limits,
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{FastVerdicts, Verdict, query_committing};
use crate::connect::Session;
use crate::leases::micros;
use crate::statement::{Statement, statement};
use probe::Probe;

static WRITE_MANY: Statement = statement!(
    "SELECT moment, before, after, clashes, seen, expiries
     FROM tidelock.write_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)":
    TEXT_ARRAY, INT4_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT4_ARRAY, UUID_ARRAY,
    UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY);

/// Whether a commit only writes records, and needs no more than their revisions.
pub(super) fn is_plain(commit: &Commit) -> bool {
    commit.parts() == commit.writes.len() && commit.writes.iter().all(|write| code(write).is_some())
}

/// Makes commits that write different records; for each in turn, none if it must take the general
/// path.
pub(super) async fn write(session: &Session, commits: &[&Commit]) -> Result<FastVerdicts> {
    let columns = Columns::of(commits);
    let Some(rows) = query_committing(session, &WRITE_MANY, &columns.parameters()).await? else {
        return Ok(commits.iter().map(|_| None).collect());
    };
    let row =
        rows.first().ok_or_else(|| StoreError::corrupt("a write of records was not answered"))?;
    let probe = Probe::read(row, &columns.order)?;
    (0..).zip(commits).map(|(nth, commit)| judge(nth, commit, &probe)).collect()
}

/// The answer to a commit; none if the general path must find it.
fn judge(nth: usize, commit: &Commit, probe: &Probe) -> Result<Option<Verdict>> {
    if !probe.is_refused(nth) {
        let written = |(at, write): (usize, &RecordWrite)| Written {
            key: write.key.clone(),
            revision: probe.after((nth, at)),
            sum: None,
        };
        let writes = commit.writes.iter().enumerate().map(written).collect();
        let committed = Committed { at: probe.moment, appends: Vec::new(), writes };
        let topics = commit.writes.iter().map(|write| Topic::Record(write.key.clone())).collect();
        return Ok(Some(Verdict { outcome: Ok(CommitOutcome::Committed(committed)), topics }));
    }
    // A commit with an id may have been made before, and a record that had expired when it was read
    // may have been renewed since.
    if commit.id.is_some() || probe.is_in_doubt(nth, commit) {
        return Ok(None);
    }
    match plan::decide(commit, probe.moment, &mut probe.rows(nth, commit))? {
        Decided::Conflict(conflict) => {
            Ok(Some(Verdict { outcome: Ok(CommitOutcome::Conflict(conflict)), topics: Vec::new() }))
        }
        _ => Ok(None),
    }
}

/// Encodes the expectation of a write as a number; none if it cannot take the fast path.
fn code(write: &RecordWrite) -> Option<i64> {
    match (&write.change, write.expected) {
        (Change::Put { .. } | Change::Delete, ExpectedRevision::Revision(revision)) => {
            Some(revision.get() as i64)
        }
        (Change::Put { .. }, ExpectedRevision::Absent) => Some(ABSENT),
        (Change::Put { .. }, ExpectedRevision::Any) => Some(ANY),
        (Change::Put { .. } | Change::Delete, ExpectedRevision::Exists) => Some(EXISTS),
        // If there is a record. If not, nothing is to be done, which takes the general path.
        (Change::Delete, ExpectedRevision::Any) => Some(EXISTS),
        _ => None,
    }
}

const ABSENT: i64 = 0;
const ANY: i64 = -1;
const EXISTS: i64 = -2;

/// The writes of many commits, as columns, sorted by key.
#[derive(Default)]
struct Columns<'a> {
    /// The commit of each write, and its index there.
    order: Vec<(usize, usize)>,
    keys: Vec<&'a str>,
    owners: Vec<i32>,
    expected: Vec<i64>,
    values: Vec<Option<&'a str>>,
    ends: Vec<Option<i64>>,
    lives: Vec<Option<i64>>,
    makers: Vec<i32>,
    ids: Vec<Uuid>,
    fingerprints: Vec<Uuid>,
    results: Vec<String>,
    /// How long each id is remembered.
    memories: Vec<i64>,
    /// The keys written by commits with an id, counted from 1, one commit after the other.
    mentions: Vec<i32>,
    mentions_from: Vec<i32>,
    mentions_to: Vec<i32>,
}

impl<'a> Columns<'a> {
    fn of(commits: &[&'a Commit]) -> Self {
        let mut columns = Self::default();
        let places =
            |(nth, commit): (usize, &&'a Commit)| (0..commit.writes.len()).map(move |at| (nth, at));
        columns.order = commits.iter().enumerate().flat_map(places).collect();
        columns.order.sort_unstable_by_key(|(nth, at)| &commits[*nth].writes[*at].key);
        for at in 0..columns.order.len() {
            let (nth, write) = columns.order[at];
            columns.add(nth, &commits[nth].writes[write]);
        }
        let places: HashMap<(usize, usize), i32> = columns.order.iter().copied().zip(1..).collect();
        for (nth, commit) in commits.iter().enumerate() {
            columns.remember(nth, commit, &places);
        }
        columns
    }

    fn add(&mut self, nth: usize, write: &'a RecordWrite) {
        let (value, expires) = match &write.change {
            Change::Put { value, expires } => (Some(value.as_str()), *expires),
            // A tombstone.
            _ => (None, Some(When::In(limits::TOMBSTONE_MEMORY))),
        };
        self.keys.push(write.key.as_str());
        self.owners.push(nth as i32);
        self.expected.push(code(write).unwrap_or(ABSENT));
        self.values.push(value);
        let end = |when| if let When::At(moment) = when { Some(moment.micros()) } else { None };
        let life = |when| if let When::In(duration) = when { Some(micros(duration)) } else { None };
        self.ends.push(expires.and_then(end));
        self.lives.push(expires.and_then(life));
    }

    /// The result without the moment and the revisions: the server puts those in separate columns.
    fn remember(&mut self, nth: usize, commit: &Commit, places: &HashMap<(usize, usize), i32>) {
        let Some(id) = commit.id else { return };
        self.mentions_from.push(self.mentions.len() as i32 + 1);
        self.mentions.extend((0..commit.writes.len()).filter_map(|at| places.get(&(nth, at))));
        self.mentions_to.push(self.mentions.len() as i32);
        self.memories.push(micros(commit.id_memory.unwrap_or(limits::COMMIT_MEMORY)));
        let written =
            |write: &RecordWrite| Written { key: write.key.clone(), revision: None, sum: None };
        let writes = commit.writes.iter().map(written).collect();
        let at = Timestamp::from_micros(0).expect("1970 is a moment");
        let committed = Committed { at, appends: Vec::new(), writes };
        self.makers.push(nth as i32);
        self.ids.push(Uuid::from_bytes(*id.as_bytes()));
        self.fingerprints.push(Uuid::from_bytes(commit.fingerprint()));
        self.results
            .push(serde_json::to_string(&committed).expect("a result is names and numbers"));
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 14] {
        [
            &self.keys,
            &self.owners,
            &self.expected,
            &self.values,
            &self.ends,
            &self.lives,
            &self.makers,
            &self.ids,
            &self.fingerprints,
            &self.results,
            &self.memories,
            &self.mentions,
            &self.mentions_from,
            &self.mentions_to,
        ]
    }
}
