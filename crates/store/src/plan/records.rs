//! Planning of record writes.

use serde_json::Value;

use super::{Floors, ReadRows};
use crate::clock::{Timestamp, When};
use crate::commit::{Commit, Part, Violation, ViolationReason, Written};
use crate::error::Result;
use crate::json::RawJson;
use crate::limits;
use crate::names::RecordKey;
use crate::numbers::Revision;
use crate::records::{
    Bounds, Change, Edit, ExpectedRevision, Rate, Record, RecordWrite, Slot, Unfit,
};

/// The row of a record that was ever written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// The number of its last write.
    pub revision: Revision,
    /// Its value, unless it is deleted.
    pub value: Option<RawJson>,
    /// When it begins to read as deleted; for a tombstone, when the store may forget it.
    pub expires_at: Option<Timestamp>,
}

impl RecordRow {
    /// The row of a record that was deleted, or that expired, at this moment.
    pub fn tombstone(revision: Revision, since: Timestamp) -> Self {
        Self { revision, value: None, expires_at: Some(since.plus(limits::TOMBSTONE_MEMORY)) }
    }

    /// The record as readers see it now.
    pub fn slot(&self, key: &RecordKey, now: Timestamp) -> Slot {
        match &self.value {
            Some(value) if self.expires_at.is_none_or(|at| at > now) => Slot::Live(Record {
                key: key.clone(),
                revision: self.revision,
                value: value.clone(),
                expires_at: self.expires_at,
            }),
            _ => Slot::Deleted(self.revision),
        }
    }
}

pub(super) struct RecordPlan {
    pub(super) written: Vec<Written>,
    pub(super) rows: Vec<(RecordKey, RecordRow)>,
}

pub(super) fn plan(
    commit: &Commit,
    now: Timestamp,
    rows: &mut impl ReadRows,
    violations: &mut Vec<Violation>,
) -> Result<RecordPlan> {
    let mut plan = RecordPlan { written: Vec::new(), rows: Vec::new() };
    for (at, write) in commit.writes.iter().enumerate() {
        let found = slot(&write.key, now, rows)?;
        match judge(write, found, now, rows.floors()?) {
            Ok((written, row)) => {
                plan.written.push(written);
                plan.rows.extend(row.map(|row| (write.key.clone(), row)));
            }
            Err(reason) => violations.push(Violation { part: Part::Write(at), reason }),
        }
    }
    Ok(plan)
}

pub(super) fn guard(
    key: &RecordKey,
    expected: ExpectedRevision,
    now: Timestamp,
    rows: &mut impl ReadRows,
) -> Result<Option<ViolationReason>> {
    let found = slot(key, now, rows)?;
    Ok((!found.meets(expected)).then(|| ViolationReason::Record {
        key: key.clone(),
        expected,
        found,
    }))
}

fn slot(key: &RecordKey, now: Timestamp, rows: &mut impl ReadRows) -> Result<Slot> {
    Ok(rows.record(key)?.map_or(Slot::Absent, |row| row.slot(key, now)))
}

/// The result of the write, and the row to store, if it changes.
fn judge(
    write: &RecordWrite,
    found: Slot,
    now: Timestamp,
    floors: Floors,
) -> Result<(Written, Option<RecordRow>), ViolationReason> {
    if !found.meets(write.expected) {
        return Err(ViolationReason::Record {
            key: write.key.clone(),
            expected: write.expected,
            found,
        });
    }
    let revision = floors.next_revision(found.revision());
    let (row, sum) = match &write.change {
        Change::Put { value, expires } => (
            RecordRow { revision, value: Some(value.clone()), expires_at: expiry(*expires, now) },
            None,
        ),
        Change::Delete if found.live().is_none() => {
            return Ok((
                Written { key: write.key.clone(), revision: found.revision(), sum: None },
                None,
            ));
        }
        Change::Delete => (RecordRow::tombstone(revision, now), None),
        Change::Add { delta, within, expires } => {
            let sum = add(&write.key, &found, *delta, *within)?;
            let expires_at = match found.live() {
                Some(record) => record.expires_at,
                None => expiry(*expires, now),
            };
            (RecordRow { revision, value: Some(RawJson::integer(sum)), expires_at }, Some(sum))
        }
        Change::Rate(rate) => {
            let full_at = draw(&write.key, &found, *rate, now)?;
            let value = Some(RawJson::integer(full_at.micros()));
            (RecordRow { revision, value, expires_at: Some(full_at) }, Some(full_at.micros()))
        }
        Change::Edit { edit, expires } => {
            let (value, number) = edited(&write.key, &found, edit)?;
            let Some(value) = value else {
                let (key, revision) = (write.key.clone(), found.revision());
                return Ok((Written { key, revision, sum: Some(number) }, None));
            };
            let kept = found.live().and_then(|record| record.expires_at);
            let expires_at = expiry(*expires, now).or(kept);
            (RecordRow { revision, value: Some(value), expires_at }, Some(number))
        }
    };
    Ok((Written { key: write.key.clone(), revision: Some(revision), sum }, Some(row)))
}

/// Never before the write: the retention of a tombstone counts from here.
fn expiry(when: Option<When>, now: Timestamp) -> Option<Timestamp> {
    when.map(|when| when.resolve(now).max(now))
}

fn add(key: &RecordKey, found: &Slot, delta: i64, within: Bounds) -> Result<i64, ViolationReason> {
    let value = integer(found)?;
    within.add(value, delta).ok_or_else(|| ViolationReason::Bound {
        key: key.clone(),
        found: value,
        delta,
        within,
    })
}

/// When everything drawn will have been replenished.
fn draw(
    key: &RecordKey,
    found: &Slot,
    rate: Rate,
    now: Timestamp,
) -> Result<Timestamp, ViolationReason> {
    rate.draw(integer(found)?, now).map_err(|possible_at| ViolationReason::Rate {
        key: key.clone(),
        rate,
        possible_at,
    })
}

/// The edited document, if it is another than before, and the number that the edit gives.
fn edited(
    key: &RecordKey,
    found: &Slot,
    edit: &Edit,
) -> Result<(Option<RawJson>, i64), ViolationReason> {
    let unfit = |reason: String| ViolationReason::Unfit { key: key.clone(), reason };
    let before: Value = match found.live() {
        Some(record) => record.value.to().map_err(|e| unfit(e.to_string()))?,
        None => Value::Null,
    };
    let mut document = before.clone();
    let number = edit.apply(&mut document).map_err(|Unfit(reason)| unfit(reason))?;
    if document == before {
        return Ok((None, number));
    }
    let value = RawJson::new(&document).and_then(|value| {
        value.check_size("the document", limits::VALUE_BYTES)?;
        Ok(value)
    });
    Ok((Some(value.map_err(|e| unfit(e.to_string()))?), number))
}

/// The value of a counter; zero if there is none.
fn integer(found: &Slot) -> Result<i64, ViolationReason> {
    match found.live() {
        None => Ok(0),
        Some(record) => record
            .value
            .as_integer()
            .ok_or_else(|| ViolationReason::NotACounter { found: record.clone() }),
    }
}
