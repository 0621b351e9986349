//! The probe: what the server found when it read the records of a batch.

use std::collections::{HashMap, HashSet};

use tidelock_store::plan::{Floors, ReadRows, RecordRow, Remembered, StreamRow, stored_json};
use tidelock_store::{
    Commit, CommitId, EventId, ExpectedRevision, Item, ItemRef, Position, RecordKey, Result,
    Revision, StoreError, StoredEvent, StreamName, Timestamp,
};
use tokio_postgres::Row;

use crate::error::{corrupt, failed};

/// The answer to a batch.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) moment: Timestamp,
    /// By commit, and by the index of the write in it.
    found: HashMap<(usize, usize), Found>,
    /// The new revisions, unless the commit was refused.
    after: HashMap<(usize, usize), Revision>,
    refused: HashSet<usize>,
}

/// What was under a key.
#[derive(Debug, Clone)]
enum Found {
    /// As expected: never written, or at this revision.
    Expected(Option<Revision>),
    /// Something else: never written, or this.
    Unexpected(Option<RecordRow>),
}

impl Probe {
    /// Reads the answer to writes that were sent in this order.
    pub(super) fn read(row: &Row, order: &[(usize, usize)]) -> Result<Self> {
        let moment = Timestamp::from_micros(row.try_get(0).map_err(failed)?).map_err(corrupt)?;
        let before: Vec<i64> = row.try_get(1).map_err(failed)?;
        let after: Vec<i64> = row.try_get(2).map_err(failed)?;
        if before.len() != order.len() || after.len() != order.len() {
            return Err(StoreError::corrupt("a write of records was answered by too few numbers"));
        }
        let mut probe =
            Self { moment, found: HashMap::new(), after: HashMap::new(), refused: HashSet::new() };
        for (place, (before, after)) in order.iter().zip(before.into_iter().zip(after)) {
            probe.found.insert(*place, Found::Expected(revision(before)?));
            probe.after.insert(*place, Revision::new(after as u64).map_err(corrupt)?);
        }
        probe.read_unexpected(row, order)?;
        Ok(probe)
    }

    fn read_unexpected(&mut self, row: &Row, order: &[(usize, usize)]) -> Result<()> {
        let Some(unexpected) = row.try_get::<_, Option<Vec<i64>>>(3).map_err(failed)? else {
            return Ok(());
        };
        let seen: Vec<Option<&str>> = row.try_get(4).map_err(failed)?;
        let expiries: Vec<Option<i64>> = row.try_get(5).map_err(failed)?;
        for (nth, (value, expiry)) in unexpected.into_iter().zip(seen.into_iter().zip(expiries)) {
            let place = usize::try_from(nth).ok().and_then(|nth| order.get(nth.checked_sub(1)?));
            let place = place.ok_or_else(|| {
                StoreError::corrupt("a record is unexpected that was not written")
            })?;
            let expires_at = expiry.map(Timestamp::from_micros).transpose().map_err(corrupt)?;
            let found = self.before(*place).map(|revision| RecordRow {
                revision,
                value: value.map(stored_json),
                expires_at,
            });
            self.found.insert(*place, Found::Unexpected(found));
            self.refused.insert(place.0);
        }
        Ok(())
    }

    pub(super) fn is_refused(&self, nth: usize) -> bool {
        self.refused.contains(&nth)
    }

    /// The revision that a record had.
    pub(super) fn before(&self, place: (usize, usize)) -> Option<Revision> {
        match self.found.get(&place)? {
            Found::Expected(revision) => *revision,
            Found::Unexpected(row) => row.as_ref().map(|row| row.revision),
        }
    }

    /// The revision that a record has.
    pub(super) fn after(&self, place: (usize, usize)) -> Option<Revision> {
        self.after.get(&place).copied()
    }

    /// Whether a record of the commit had expired when it was refused. The read is a little older
    /// than the moment: it may have been renewed in between.
    pub(super) fn is_in_doubt(&self, nth: usize, commit: &Commit) -> bool {
        (0..commit.writes.len()).any(|at| match self.found.get(&(nth, at)) {
            Some(Found::Unexpected(Some(row))) => {
                row.expires_at.is_some_and(|at| at <= self.moment)
            }
            _ => false,
        })
    }

    /// The rows of a commit that was refused.
    pub(super) fn rows(&self, nth: usize, commit: &Commit) -> CommitRows {
        let rows = commit.writes.iter().enumerate().filter_map(|(at, write)| {
            let row = match self.found.get(&(nth, at))? {
                Found::Unexpected(row) => row.clone()?,
                Found::Expected(revision) => expected((*revision)?, write.expected),
            };
            Some((write.key.clone(), row))
        });
        CommitRows { records: rows.collect() }
    }
}

fn revision(number: i64) -> Result<Option<Revision>> {
    (number > 0).then(|| Revision::new(number as u64)).transpose().map_err(corrupt)
}

/// A record that was as expected. Its value was not transferred, and is not needed.
fn expected(revision: Revision, expected: ExpectedRevision) -> RecordRow {
    let value = (expected != ExpectedRevision::Absent).then(|| stored_json("null"));
    RecordRow { revision, value, expires_at: None }
}

/// The records of one commit, and nothing else, because it names nothing else.
#[derive(Debug)]
pub(super) struct CommitRows {
    records: HashMap<RecordKey, RecordRow>,
}

impl ReadRows for CommitRows {
    fn remembered(&mut self, _: CommitId) -> Result<Option<Remembered>> {
        Ok(None)
    }

    fn stream(&mut self, _: &StreamName) -> Result<Option<StreamRow>> {
        Ok(None)
    }

    fn event(&mut self, _: EventId) -> Result<Option<StoredEvent>> {
        Ok(None)
    }

    fn record(&mut self, key: &RecordKey) -> Result<Option<RecordRow>> {
        Ok(self.records.get(key).cloned())
    }

    fn item(&mut self, _: &ItemRef) -> Result<Option<Item>> {
        Ok(None)
    }

    fn last_position(&mut self) -> Result<Position> {
        Ok(Position::START)
    }

    /// A refused commit assigns no revision.
    fn floors(&mut self) -> Result<Floors> {
        Ok(Floors::default())
    }

    fn version_floor(&mut self, _: &str) -> Result<u64> {
        Ok(0)
    }
}
