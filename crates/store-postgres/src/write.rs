//! The short way for commits that do nothing but write records.
//!
//! Such commits are judged and written by the server in one statement, alone or together with others of their kind: one
//! trip. The statement compares revisions and adds one; it never looks into a value. What it accepts is there. What it refuses is
//! judged here by the rule that all stores share, from the rows that it found. Whatever else is to be told (a commit
//! that was made before under its id, a record that ran out a moment ago, others who were in the way) is found out on
//! [the long way](crate::commit). So the meaning of a commit is in one place all the same.

mod looked;

use std::collections::HashSet;

use tidelock_store::plan::{self, Decision};
use tidelock_store::{
    Change, Commit, CommitId, CommitOutcome, Committed, ExpectedRevision, RecordKey, Result, Revision,
    StoreError, Timestamp, Topic, When, Write, Written,
};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::commit::{Judged, not_replicated};
use crate::error::{commit_failed, is_race};
use crate::leases::micros;
use crate::session::Session;
use crate::statement::Statement;

use looked::Looked;

static WRITE_MANY: Statement = Statement::new(
    "SELECT moment, before, clashes, seen, expiries FROM tidelock.write_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    &[
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
    ],
);

/// Whether a commit writes records, does nothing else, and nothing with them that takes more than a look at their revisions.
pub(crate) fn only_writes(commit: &Commit) -> bool {
    commit.parts() == commit.writes.len() && commit.writes.iter().all(|write| code(commit, write).is_some())
}

/// Those of the commits that can go together this way: each writes other records.
pub(crate) fn can_go_together<'a>(commits: &[&'a Commit]) -> Vec<bool> {
    let (mut keys, mut ids): (HashSet<&RecordKey>, HashSet<CommitId>) = Default::default();
    let mut fits = |commit: &'a Commit| {
        let apart = commit.writes.iter().all(|write| !keys.contains(&write.key));
        let fits = apart && only_writes(commit) && commit.id.is_none_or(|id| ids.insert(id));
        if fits {
            keys.extend(commit.writes.iter().map(|write| &write.key));
        }
        fits
    };
    commits.iter().map(|commit| fits(commit)).collect()
}

/// Makes commits that write different records; for each in turn, nothing if it must go the long way.
pub(crate) async fn write_together(session: &Session, commits: &[&Commit]) -> Result<Vec<Option<Judged>>> {
    let batch = Batch::of(commits);
    let warnings = session.warnings();
    let rows = match session.query(&WRITE_MANY, &batch.parameters()).await {
        Err(error) if is_race(&error) => return Ok(commits.iter().map(|_| None).collect()),
        answered => answered.map_err(commit_failed)?,
    };
    if session.warnings() > warnings {
        return Err(not_replicated());
    }
    let row = rows.first().ok_or_else(|| StoreError::corrupt("a write of records was not answered"))?;
    let looked = Looked::read(row, &batch.order)?;
    (0..).zip(commits).map(|(nth, commit)| judge(nth, commit, &looked)).collect()
}

/// What became of a commit; nothing if that is found out on the long way.
fn judge(nth: usize, commit: &Commit, looked: &Looked) -> Result<Option<Judged>> {
    if !looked.is_refused(nth) {
        let written = |(at, write): (usize, &Write)| {
            let revision = looked.before((nth, at)).map_or(Revision::FIRST, |before| before.plus(1));
            Written { key: write.key.clone(), revision: Some(revision), sum: None }
        };
        let writes = commit.writes.iter().enumerate().map(written).collect();
        let committed = Committed { at: looked.moment, appends: Vec::new(), writes };
        let topics = commit.writes.iter().map(|write| Topic::Record(write.key.clone())).collect();
        return Ok(Some(Judged { outcome: Ok(CommitOutcome::Committed(committed)), topics }));
    }
    // One with an id may have been made before, and what ran out before the look may have been renewed since.
    if commit.id.is_some() || looked.is_in_doubt(nth, commit) {
        return Ok(None);
    }
    match plan::decide(commit, looked.moment, &mut looked.rows(nth, commit))? {
        Decision::Conflict(conflict) => {
            Ok(Some(Judged { outcome: Ok(CommitOutcome::Conflict(conflict)), topics: Vec::new() }))
        }
        _ => Ok(None),
    }
}

/// What a write expects, as a number for the statement; nothing if it cannot go this way.
///
/// The result of a commit with an id is remembered as text, so its revisions have to be known beforehand.
fn code(commit: &Commit, write: &Write) -> Option<i64> {
    let named = commit.id.is_some();
    match (&write.change, write.expected) {
        (Change::Put { .. } | Change::Delete, ExpectedRevision::Revision(revision)) => {
            Some(revision.get() as i64)
        }
        (Change::Put { .. }, ExpectedRevision::Absent) => Some(if named { NEVER } else { ABSENT }),
        (Change::Put { .. }, ExpectedRevision::Any) if !named => Some(ANY),
        (Change::Put { .. } | Change::Delete, ExpectedRevision::Exists) if !named => Some(EXISTS),
        // If there is one. If not, nothing is to be done, and that in a way that takes two trips.
        (Change::Delete, ExpectedRevision::Any) if !named => Some(EXISTS),
        _ => None,
    }
}

const ABSENT: i64 = 0;
const ANY: i64 = -1;
const EXISTS: i64 = -2;
const NEVER: i64 = -3;

/// The revision that a write of a commit with an id gives its record.
fn known_revision(write: &Write) -> Revision {
    match write.expected {
        ExpectedRevision::Revision(revision) => revision.plus(1),
        _ => Revision::FIRST,
    }
}

/// Writes of many commits, as columns, sorted by key.
#[derive(Default)]
struct Batch<'a> {
    /// Which commit each belongs to, and which of its writes it is.
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
}

impl<'a> Batch<'a> {
    fn of(commits: &[&'a Commit]) -> Self {
        let mut batch = Self::default();
        let places = |(nth, commit): (usize, &&'a Commit)| (0..commit.writes.len()).map(move |at| (nth, at));
        batch.order = commits.iter().enumerate().flat_map(places).collect();
        batch.order.sort_unstable_by_key(|(nth, at)| &commits[*nth].writes[*at].key);
        for at in 0..batch.order.len() {
            let (nth, write) = batch.order[at];
            batch.add(nth, commits[nth], &commits[nth].writes[write]);
        }
        for (nth, commit) in commits.iter().enumerate() {
            batch.remember(nth, commit);
        }
        batch
    }

    fn add(&mut self, nth: usize, commit: &Commit, write: &'a Write) {
        let (value, expires) = match &write.change {
            Change::Put { value, expires } => (Some(value.as_str()), *expires),
            _ => (None, None),
        };
        self.keys.push(write.key.as_str());
        self.owners.push(nth as i32);
        self.expected.push(code(commit, write).unwrap_or(NEVER));
        self.values.push(value);
        let end = |when| if let When::At(moment) = when { Some(moment.micros()) } else { None };
        let life = |when| if let When::In(duration) = when { Some(micros(duration)) } else { None };
        self.ends.push(expires.and_then(end));
        self.lives.push(expires.and_then(life));
    }

    /// The result, without the moment: that is in a column of its own.
    fn remember(&mut self, nth: usize, commit: &Commit) {
        let Some(id) = commit.id else { return };
        let written = |write: &Write| Written {
            key: write.key.clone(),
            revision: Some(known_revision(write)),
            sum: None,
        };
        let writes = commit.writes.iter().map(written).collect();
        let at = Timestamp::from_micros(0).expect("1970 is a moment");
        let committed = Committed { at, appends: Vec::new(), writes };
        self.makers.push(nth as i32);
        self.ids.push(Uuid::from_bytes(*id.as_bytes()));
        self.fingerprints.push(Uuid::from_bytes(commit.fingerprint()));
        self.results.push(serde_json::to_string(&committed).expect("a result is names and numbers"));
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 10] {
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
        ]
    }
}
