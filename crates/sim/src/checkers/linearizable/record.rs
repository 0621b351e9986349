//! The sequential record: a value under a key, with a revision and an expiry. A scope is one too.

use std::sync::Arc;

use serde_json::Value;
use tidelock::store::Edit;

use super::Object;
use crate::history::{Change, Expected, Expiry, Slot, list_value};

/// A jump of this many numbers is the beginning of an epoch, whose numbers begin at the time in
/// microseconds: no server starts again within as many after another epoch, however often it is
/// restarted.
pub(in super::super) const EPOCH_JUMP: u64 = 10_000;

/// The value after a draw on a rate limit at a moment that is not known.
const UNKNOWN: &str = "unknown";

/// An operation on a record, with its answer.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum RecordOp {
    /// A change that landed, or may have.
    Write(Write),
    /// The record was found so, in this span of the store's clock.
    Found { slot: Slot, during: Span },
    /// The record was found to be this number.
    FoundSum(i64),
    /// The record was found to be as expected.
    Met { expected: Expected, during: Span },
}

#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Write {
    pub(in super::super) expected: Vec<Expected>,
    /// None for a commit that only guards the record.
    pub(in super::super) change: Option<Change>,
    pub(in super::super) expires: Option<Expiry>,
    /// When it landed, by the store's clock.
    pub(in super::super) at: Option<i64>,
    /// The revision that was answered, if it was; in it none, if nothing was ever there to delete.
    pub(in super::super) revision: Option<Option<u64>>,
    /// The value that was answered.
    pub(in super::super) value: Option<String>,
}

/// A span of the store's clock, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct Span {
    pub(in super::super) from: Option<i64>,
    pub(in super::super) until: Option<i64>,
}

impl Span {
    fn at(moment: Option<i64>) -> Self {
        Self { from: moment, until: moment }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct Record {
    revision: u64,
    others: Others,
    value: Option<Arc<str>>,
    expires: Expires,
}

/// The revisions that a record may have besides the known one, because that of its last write is
/// not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Others {
    None,
    /// Those of a later epoch, which may have begun before the write.
    OfEpochs,
    /// All higher ones: the record may have been forgotten before the write.
    Higher,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Expires {
    Never,
    At(i64),
    /// At a moment that is not known, because that of the write is not.
    Sometime,
}

impl Record {
    /// Whether it can read as live, and whether as deleted, in this span.
    fn presence(&self, during: Span) -> (bool, bool) {
        match (&self.value, self.expires) {
            (None, _) => (false, true),
            (_, Expires::Never) => (true, false),
            (_, Expires::Sometime) => (true, true),
            (_, Expires::At(at)) => (
                during.from.is_none_or(|from| from < at),
                during.until.is_none_or(|until| until >= at),
            ),
        }
    }

    fn has(&self, revision: u64) -> bool {
        match (self.others, revision.checked_sub(self.revision)) {
            (_, None) => false,
            (_, Some(0)) | (Others::Higher, _) => true,
            (Others::OfEpochs, Some(more)) => more >= EPOCH_JUMP,
            (Others::None, _) => false,
        }
    }

    fn reads_as(&self, found: &str) -> bool {
        self.value.as_deref().is_some_and(|value| value == found || value == UNKNOWN)
    }

    fn meets(&self, expected: Expected, live: bool) -> bool {
        match expected {
            Expected::Any => true,
            Expected::Absent => !live,
            Expected::Exists => live,
            Expected::Exactly(revision) => live && self.has(revision),
        }
    }

    /// Whether a write can have this revision. The numbers are contiguous while the record is
    /// there; what is gone may be forgotten, and begins higher.
    fn can_become(&self, revision: u64, live: bool) -> bool {
        match revision.checked_sub(self.revision) {
            None | Some(0) => false,
            Some(1) => true,
            Some(more) => self.others == Others::Higher || !live || more >= EPOCH_JUMP,
        }
    }

    fn found(&self, slot: &Slot, during: Span, next: &mut Vec<Self>) {
        let (can_live, can_be_gone) = self.presence(during);
        match slot {
            Slot::Absent if can_be_gone => next.push(self.clone()),
            Slot::Deleted(revision) if can_be_gone && self.has(*revision) => {
                next.push(Self { revision: *revision, others: Others::None, ..self.clone() });
            }
            Slot::Live { revision, value, expires }
                if can_live && self.has(*revision) && self.reads_as(value) =>
            {
                let found = expires.map_or(Expires::Never, Expires::At);
                if self.expires == found || self.expires == Expires::Sometime {
                    let (revision, value) = (*revision, Some(Arc::from(value.as_str())));
                    next.push(Self { revision, others: Others::None, value, expires: found });
                }
            }
            _ => {}
        }
    }

    fn write(&self, write: &Write, next: &mut Vec<Self>) {
        let (can_live, can_be_gone) = self.presence(Span::at(write.at));
        for live in [can_live.then_some(true), can_be_gone.then_some(false)].into_iter().flatten() {
            if write.expected.iter().all(|expected| self.meets(*expected, live)) {
                next.extend(self.changed(write, live));
            }
        }
    }

    fn changed(&self, write: &Write, live: bool) -> Option<Self> {
        let Some(change) = &write.change else { return Some(self.clone()) };
        let before = self.value.as_deref().filter(|_| live);
        let edited = match change {
            Change::Edit(edit) => Some(edited(edit, before)?),
            _ => None,
        };
        let (told, without_effect) =
            (write.value.as_deref(), edited.as_ref().map(|e| e.0.is_none()));
        if edited.as_ref().is_some_and(|(_, number)| told.is_some_and(|told| told != number)) {
            return None;
        }
        if without_effect.unwrap_or(*change == Change::Delete && !live) {
            let fits = |answer: Option<u64>| answer.is_none_or(|revision| self.has(revision));
            return write.revision.is_none_or(fits).then(|| self.clone());
        }
        let (revision, others) = match write.revision {
            Some(answer) => {
                (answer.filter(|revision| self.can_become(*revision, live))?, Others::None)
            }
            None if live && self.others != Others::Higher => (self.revision + 1, Others::OfEpochs),
            None => (self.revision + 1, Others::Higher),
        };
        if let Change::Rate { cost, burst } = *change {
            let value = drawn(before, cost, burst, write)?;
            let expires = value.parse().map_or(Expires::Sometime, Expires::At);
            return Some(Self { revision, others, value: Some(value.into()), expires });
        }
        let value = match edited {
            Some((document, _)) => document,
            None => {
                let value = apply(change, before)?;
                if told.is_some_and(|told| value.as_deref().map(list_value::shown) != Some(told)) {
                    return None;
                }
                value
            }
        };
        let keeps = match change {
            Change::Add { .. } => live,
            Change::Edit(_) => live && write.expires.is_none(),
            _ => false,
        };
        let expires = if keeps { self.expires } else { expiry(write.expires, write.at) };
        Some(Self { revision, others, value: value.map(Arc::from), expires })
    }
}

/// The value after a draw, as far as it is known; none if it was not possible.
fn drawn(found: Option<&str>, cost: i64, burst: i64, write: &Write) -> Option<String> {
    let full_at = match found {
        None => Some(0),
        Some(UNKNOWN) => None,
        Some(found) => Some(found.parse::<i64>().ok()?),
    };
    let (Some(full_at), Some(now)) = (full_at, write.at) else {
        return Some(write.value.clone().unwrap_or_else(|| UNKNOWN.to_owned()));
    };
    let value = full_at.max(now) + cost;
    let fits = value - now <= burst;
    let value = value.to_string();
    (fits && write.value.as_ref().is_none_or(|told| *told == value)).then_some(value)
}

fn expiry(expires: Option<Expiry>, at: Option<i64>) -> Expires {
    match (expires, at) {
        (None, _) => Expires::Never,
        (Some(Expiry::At(moment)), Some(at)) => Expires::At(moment.max(at)),
        (Some(Expiry::In(after)), Some(at)) => Expires::At(at.saturating_add(after)),
        (Some(_), None) => Expires::Sometime,
    }
}

/// A document after an edit, none if that changes nothing, and what the edit gives.
fn edited(edit: &str, value: Option<&str>) -> Option<(Option<String>, String)> {
    let edit: Edit = serde_json::from_str(edit).ok()?;
    let before: Value = serde_json::from_str(value.unwrap_or("null")).ok()?;
    let mut document = before.clone();
    let number = edit.apply(&mut document).ok()?;
    Some(((document != before).then(|| document.to_string()), number.to_string()))
}

/// The value after the change, in it none if it is deleted; none if the change does not apply.
#[expect(clippy::option_option, reason = "a change that does not apply is not a deletion")]
fn apply(change: &Change, value: Option<&str>) -> Option<Option<String>> {
    Some(match change {
        Change::Put(value) => Some(value.clone()),
        Change::Delete => None,
        Change::Add { delta, min, max } => {
            let sum = value.map_or(Some(0), |value| value.parse().ok())?;
            Some(add(sum, *delta, *min, *max)?.to_string())
        }
        // Judged by the time of the write, or with what it gives.
        Change::Rate { .. } | Change::Edit(_) => return None,
        Change::Push(element) => Some(list_value::pushed(value, element)),
    })
}

/// Adds within bounds; a value that is past a bound can move back.
pub(in super::super) fn add(
    value: i64,
    delta: i64,
    min: Option<i64>,
    max: Option<i64>,
) -> Option<i64> {
    let sum = value.checked_add(delta)?;
    let fits = match delta {
        0 => true,
        1.. => max.is_none_or(|max| sum <= max),
        _ => min.is_none_or(|min| sum >= min),
    };
    fits.then_some(sum)
}

/// A record; before the first write there is none.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RecordObject;

impl Object for RecordObject {
    type Op = RecordOp;
    type State = Record;

    fn initial(&self) -> Record {
        Record { revision: 0, others: Others::None, value: None, expires: Expires::Never }
    }

    fn step(&self, state: &Record, op: &RecordOp, next: &mut Vec<Record>) {
        let met = match op {
            RecordOp::Write(write) => return state.write(write, next),
            RecordOp::Found { slot, during } => return state.found(slot, *during, next),
            RecordOp::FoundSum(sum) => {
                let value = state.value.as_deref().map_or(Some(0), |value| value.parse().ok());
                value == Some(*sum) || state.presence(Span::default()).1 && *sum == 0
            }
            RecordOp::Met { expected, during } => {
                let (can_live, can_be_gone) = state.presence(*during);
                can_live && state.meets(*expected, true)
                    || can_be_gone && state.meets(*expected, false)
            }
        };
        next.extend(met.then(|| state.clone()));
    }

    fn is_read(&self, op: &RecordOp) -> bool {
        !matches!(op, RecordOp::Write(Write { change: Some(_), .. }))
    }

    fn is_too_late(&self, state: &Record, op: &RecordOp) -> bool {
        match op {
            RecordOp::Write(Write { revision: Some(Some(revision)), change, .. }) => {
                let changes = *change != Some(Change::Delete);
                state.revision > *revision || state.revision == *revision && changes
            }
            RecordOp::Found {
                slot: Slot::Live { revision, .. } | Slot::Deleted(revision), ..
            } => state.revision > *revision,
            _ => false,
        }
    }
}
