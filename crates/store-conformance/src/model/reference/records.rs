//! Reference model of records: revisions and values.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock_store::{
    Bounds, Change, Edit, ExpectedRevision, Rate, RawJson, Record, RecordKey, RecordWrite,
    Revision, Slot, Timestamp, ViolationReason, When, Written, limits,
};

use super::moment;

#[derive(Default)]
pub(super) struct Records {
    /// Every record that was ever written and is not forgotten.
    rows: BTreeMap<RecordKey, Row>,
    /// The highest forgotten revision.
    floor: u64,
}

struct Row {
    revision: u64,
    /// The value and its expiry, unless it was deleted.
    value: Option<(RawJson, Option<Timestamp>)>,
    /// When it was deleted, or will have expired.
    ends: Option<Timestamp>,
}

impl Records {
    pub(super) fn slot(&self, key: &RecordKey, now: Timestamp) -> Slot {
        let Some(row) = self.rows.get(key) else { return Slot::Absent };
        let revision = Revision::new(row.revision).unwrap();
        match &row.value {
            Some((value, expires_at)) if expires_at.is_none_or(|expiry| now < expiry) => {
                Slot::Live(Record {
                    key: key.clone(),
                    revision,
                    value: value.clone(),
                    expires_at: *expires_at,
                })
            }
            _ => Slot::Deleted(revision),
        }
    }

    pub(super) fn live(&self, prefix: &str, now: Timestamp) -> Vec<Record> {
        let keys = self.rows.keys().filter(|key| key.as_str().starts_with(prefix));
        keys.filter_map(|key| match self.slot(key, now) {
            Slot::Live(record) => Some(record),
            _ => None,
        })
        .collect()
    }

    pub(super) fn judge_slot(
        &self,
        key: &RecordKey,
        expected: ExpectedRevision,
        now: Timestamp,
    ) -> Option<ViolationReason> {
        let found = self.slot(key, now);
        let live = match &found {
            Slot::Live(record) => Some(record.revision),
            _ => None,
        };
        let holds = match expected {
            ExpectedRevision::Any => true,
            ExpectedRevision::Absent => live.is_none(),
            ExpectedRevision::Exists => live.is_some(),
            ExpectedRevision::Revision(revision) => live == Some(revision),
        };
        (!holds).then(|| ViolationReason::Record { key: key.clone(), expected, found })
    }

    pub(super) fn judge(&self, write: &RecordWrite, now: Timestamp) -> Option<ViolationReason> {
        if let Some(reason) = self.judge_slot(&write.key, write.expected, now) {
            return Some(reason);
        }
        if let Change::Edit { edit, .. } = &write.change {
            let key = write.key.clone();
            let edited = edited(&self.slot(&write.key, now), edit);
            return edited.err().map(|reason| ViolationReason::Unfit { key, reason });
        }
        if !matches!(write.change, Change::Add { .. } | Change::Rate(_)) {
            return None;
        }
        let found = match self.slot(&write.key, now) {
            Slot::Live(record) => match integer(&record.value) {
                Some(number) => number,
                None => return Some(ViolationReason::NotACounter { found: record }),
            },
            _ => 0,
        };
        let key = write.key.clone();
        match write.change {
            Change::Add { delta, within, .. } if sum(found, delta, within).is_none() => {
                Some(ViolationReason::Bound { key, found, delta, within })
            }
            Change::Rate(rate) => {
                let possible_at = drawn(found, rate, now) - rate.burst.as_micros() as i128;
                (possible_at > i128::from(now.micros())).then(|| ViolationReason::Rate {
                    key,
                    rate,
                    possible_at: latest(possible_at),
                })
            }
            _ => None,
        }
    }

    /// Forgets tombstones whose retention has passed.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let gone =
            |row: &Row| row.ends.is_some_and(|ends| ends.plus(limits::TOMBSTONE_MEMORY) <= now);
        let forgotten = self.rows.values().filter(|row| gone(row)).map(|row| row.revision);
        self.floor = forgotten.fold(self.floor, u64::max);
        self.rows.retain(|_, row| !gone(row));
    }

    /// Applies an accepted write.
    pub(super) fn write(&mut self, write: &RecordWrite, now: Timestamp) -> Written {
        let before = self.slot(&write.key, now);
        let live = match &before {
            Slot::Live(record) => Some(record),
            _ => None,
        };
        let mut gives = None;
        let value = match &write.change {
            Change::Edit { edit, expires } => {
                let (document, number) = edited(&before, edit).expect("it was judged");
                gives = Some(number);
                if document == parsed(&before) {
                    let known = self.rows.get(&write.key).map(|row| row.revision);
                    let revision = known.map(|revision| Revision::new(revision).unwrap());
                    return Written { key: write.key.clone(), revision, sum: gives };
                }
                let kept = live.and_then(|record| record.expires_at);
                Some((RawJson::new(&document).unwrap(), expiry(*expires, now).or(kept)))
            }
            Change::Put { value, expires } => Some((value.clone(), expiry(*expires, now))),
            Change::Add { delta, within, expires } => {
                let (found, expires_at) = match live {
                    Some(record) => {
                        (integer(&record.value).expect("it was judged"), record.expires_at)
                    }
                    None => (0, expiry(*expires, now)),
                };
                let sum = sum(found, *delta, *within).expect("it was judged");
                Some((RawJson::new(&sum).unwrap(), expires_at))
            }
            Change::Rate(rate) => {
                let found = live.map_or(0, |r| integer(&r.value).expect("it was judged"));
                let full_at = latest(drawn(found, *rate, now));
                Some((RawJson::new(&full_at.micros()).unwrap(), Some(full_at)))
            }
            _ => None,
        };
        let sum = match (&write.change, &value) {
            (Change::Add { .. } | Change::Rate(_), Some((value, _))) => integer(value),
            _ => gives,
        };
        // Deleting a record that does not exist changes nothing.
        if value.is_some() || live.is_some() {
            let revision = self.rows.get(&write.key).map_or(self.floor, |row| row.revision) + 1;
            let ends = match &value {
                Some((_, expires_at)) => *expires_at,
                None => Some(now),
            };
            self.rows.insert(write.key.clone(), Row { revision, value, ends });
        }
        let revision = self.rows.get(&write.key).map(|row| Revision::new(row.revision).unwrap());
        Written { key: write.key.clone(), revision, sum }
    }
}

fn expiry(when: Option<When>, now: Timestamp) -> Option<Timestamp> {
    when.map(|when| moment(when, now).max(now))
}

fn integer(value: &RawJson) -> Option<i64> {
    value.to().ok()
}

/// The document as JSON; `null` if there is none.
fn parsed(found: &Slot) -> Value {
    match found {
        Slot::Live(record) => record.value.to().unwrap(),
        _ => Value::Null,
    }
}

/// The document after the edit, and the number that the edit gives. The model's documents are
/// small, and its edits are at the root.
fn edited(found: &Slot, edit: &Edit) -> Result<(Value, i64), String> {
    let unfit = |found: &Value, wanted: &str| {
        let found = match found {
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
            other => panic!("{other} is in no document of the model"),
        };
        format!("the document: there is {found} where {wanted} is needed")
    };
    match (edit, parsed(found)) {
        (Edit::Increment { by, .. }, Value::Null) => Ok((json!(by), *by)),
        (Edit::Increment { by, .. }, Value::Number(before)) => {
            let before = before.as_i64().expect("the model has no other numbers");
            let sum = before.checked_add(*by).ok_or_else(|| {
                format!("the document: {before} {by:+} is more than an integer of 64 bits holds")
            })?;
            Ok((json!(sum), sum))
        }
        (Edit::Increment { .. }, other) => Err(unfit(&other, "an integer")),
        (Edit::Push { item, .. }, Value::Null) => Ok((json!([item.to::<Value>().unwrap()]), 1)),
        (Edit::Push { item, .. }, Value::Array(mut items)) => {
            items.push(item.to().unwrap());
            let length = items.len() as i64;
            Ok((Value::Array(items), length))
        }
        (Edit::Push { .. }, other) => Err(unfit(&other, "a list")),
        (Edit::SetEntry { key, value, .. }, before @ (Value::Null | Value::Object(_))) => {
            let mut document = if before.is_null() { json!({}) } else { before.clone() };
            document[key] = value.to().unwrap();
            let is_changed = document != before;
            Ok((document, is_changed.into()))
        }
        (Edit::SetEntry { .. }, other) => Err(unfit(&other, "an object")),
        (Edit::RemoveEntry { .. }, Value::Null) => Ok((Value::Null, 0)),
        (Edit::RemoveEntry { key, .. }, Value::Object(mut entries)) => {
            let was_there = entries.remove(key).is_some();
            Ok((Value::Object(entries), was_there.into()))
        }
        (Edit::RemoveEntry { .. }, other) => Err(unfit(&other, "an object")),
        (other, _) => panic!("{other:?} is no edit of the model"),
    }
}

/// The sum, if it is a number and not past the bound in the direction of the change.
fn sum(found: i64, delta: i64, within: Bounds) -> Option<i64> {
    let sum = i128::from(found) + i128::from(delta);
    let too_much = delta > 0 && within.max.is_some_and(|max| sum > i128::from(max));
    let too_little = delta < 0 && within.min.is_some_and(|min| sum < i128::from(min));
    if too_much || too_little { None } else { i64::try_from(sum).ok() }
}

/// When everything drawn will have been replenished, in microseconds.
fn drawn(found: i64, rate: Rate, now: Timestamp) -> i128 {
    i128::from(found.max(now.micros())) + rate.cost.as_micros() as i128
}

/// The moment, or the last that can be written.
fn latest(micros: i128) -> Timestamp {
    let micros = u64::try_from(micros).expect("after 1970");
    Timestamp::from_micros(0).unwrap().plus(Duration::from_micros(micros))
}

/// Bounds that contain no number, and draws that never fit.
pub(super) fn makes_no_sense(write: &RecordWrite) -> bool {
    match write.change {
        Change::Add { within: Bounds { min: Some(min), max: Some(max) }, .. } => min > max,
        Change::Rate(rate) => rate.cost > rate.burst,
        _ => false,
    }
}
