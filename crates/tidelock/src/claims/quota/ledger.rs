//! Ledger: the times at which the reservations of a quota end.
//!
//! A *bucket* counts the units reserved until one time, and the ledger lists those times. Expired
//! reservations are found by reading the ledger and the buckets of past times. The cost depends on
//! the number of distinct times, not on the number of reservations.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Bounds, Commit, ExpectedRevision, RawJson, RecordKey, RecordWrite, Result, Revision, Slot,
    Timestamp, When,
};

use super::super::keys;
use super::Window;

/// Below this many entries, a reservation ends exactly at the requested time.
const MIN_SHARED: usize = 16;
/// Above, it ends up to this fraction of its duration later, at a time that it shares with others.
const ROUNDING: u128 = 64;

/// The times at which reservations end, in one window of a quota.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    quota: String,
    window: Window,
    record: RecordKey,
    revision: Option<Revision>,
    ends: Vec<Timestamp>,
}

/// Content of a ledger's record.
#[derive(Debug, Serialize, Deserialize)]
struct LedgerRecord {
    ends: Vec<i64>,
}

impl Ledger {
    pub(super) fn read(quota: &str, window: Window, slot: &Slot) -> Result<Self> {
        let (record, written) = (keys::ledger(quota)?, slot.live());
        let ends = match written {
            Some(written) => written.value.to::<LedgerRecord>()?.ends,
            None => Vec::new(),
        };
        let ends = ends.into_iter().map(Timestamp::from_micros).collect::<Result<_>>()?;
        let revision = written.map(|written| written.revision);
        Ok(Self { quota: quota.to_owned(), window, record, revision, ends })
    }

    pub(super) fn has(&self, end: Timestamp) -> bool {
        self.ends.contains(&end)
    }

    /// Whether both are the same revision.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.revision == other.revision
    }

    /// Whether there are so many entries that reservations have to share them.
    pub(super) fn is_crowded(&self) -> bool {
        self.ends.len() >= MIN_SHARED
    }

    /// Returns the past entries, at most `most`.
    pub(super) fn expired(&self, now: Timestamp, most: usize) -> Vec<Timestamp> {
        self.ends.iter().copied().filter(|end| *end <= now).take(most).collect()
    }

    /// Adds units to the bucket of this time, creating it if necessary.
    pub(super) fn book(&self, commit: Commit, end: Timestamp, units: i64) -> Result<Commit> {
        let bucket = self.bucket(end)?;
        if self.has(end) {
            return Ok(commit.write(change(&bucket, units)));
        }
        let opened = RecordWrite::put(&bucket, ExpectedRevision::Absent, RawJson::new(&units)?);
        let opened = self.expiring(opened, self.window.end.map(|over| over.max(end)));
        let ends = self.ends.iter().copied().chain([end]).collect();
        Ok(commit.write(self.write(ends)?).write(opened))
    }

    /// Removes these entries.
    pub(super) fn without(&self, gone: &[Timestamp]) -> Result<RecordWrite> {
        self.write(self.ends.iter().copied().filter(|end| !gone.contains(end)).collect())
    }

    pub(super) fn bucket(&self, end: Timestamp) -> Result<RecordKey> {
        keys::bucket(&self.quota, self.window.revision, end)
    }

    /// The ledger's record.
    pub(super) fn record(&self) -> &RecordKey {
        &self.record
    }

    fn write(&self, ends: Vec<Timestamp>) -> Result<RecordWrite> {
        let expected = self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision);
        if ends.is_empty() {
            return Ok(RecordWrite::delete(&self.record, expected));
        }
        let written = LedgerRecord { ends: ends.into_iter().map(Timestamp::micros).collect() };
        Ok(self.expiring(
            RecordWrite::put(&self.record, expected, RawJson::new(&written)?),
            self.window.end,
        ))
    }

    /// A window that never ends keeps its ledger, as it keeps its counter.
    fn expiring(&self, write: RecordWrite, end: Option<Timestamp>) -> RecordWrite {
        match end {
            Some(end) => write.expiring(When::At(end)),
            None => write,
        }
    }
}

/// Adds to an existing bucket, or subtracts from it. An absent bucket was credited: its time has
/// passed.
pub(super) fn change(bucket: &RecordKey, units: i64) -> RecordWrite {
    let add = RecordWrite::add(bucket, units, Bounds::at_least(0));
    RecordWrite { expected: ExpectedRevision::Exists, ..add }
}

/// Rounds the end of a reservation, so that reservations that end at about the same time share an
/// entry.
pub(in super::super) fn shared_end(now: Timestamp, life: Duration) -> Timestamp {
    let step = (life.as_micros() / ROUNDING).max(1);
    let step = 1_i64 << step.ilog2().min(62);
    let end = now.plus(life).micros();
    let up = end.rem_euclid(step);
    let up = if up == 0 { 0 } else { step - up };
    now.plus(life).plus(Duration::from_micros(up.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_end_is_never_early_and_at_most_a_64th_late() {
        for micros in [1, 63, 64, 1_000, 50_000, 3_000_000, 30_000_000, 604_800_000_000] {
            let life = Duration::from_micros(micros);
            for now in [0, 1, 77, 1_893_456_000_123_457] {
                let now = Timestamp::from_micros(now).unwrap();
                let late = shared_end(now, life).since(now.plus(life));
                assert!(
                    shared_end(now, life) >= now.plus(life) && late <= life / 64,
                    "{micros}: {late:?}"
                );
            }
        }
    }

    #[test]
    fn many_reservations_share_few_ends() {
        let life = Duration::from_secs(3_600);
        let acquired_at = Timestamp::from_micros(1_893_456_000_000_000).unwrap();
        let moments = (0..3_600)
            .map(|second| shared_end(acquired_at.plus(Duration::from_secs(second)), life));
        let moments: std::collections::BTreeSet<_> = moments.collect();
        assert!(moments.len() <= 129, "{}", moments.len());
    }
}
