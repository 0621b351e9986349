//! Hot records: scopes, quotas, rate limits and records of users that are written again and again.
//!
//! A store keeps the newest revision of a record and no trace of when the others were written. So
//! the records with the highest revisions are read twice, at the begin and at the end of the
//! examination, and the revisions in between are counted.

use std::time::Duration;

use tidelock_store::{Record, RecordKey, RecordQuery, Result, Slot, StoreExt, Timestamp, limits};

use super::display::span;
use super::examination::Examination;
use super::finding::{Finding, FindingKind, Findings};
use super::subject::Subject;
use crate::claims::keys::{quota_of_taken, quotas_taken, rate_of, rates};
use crate::scopes::keys::{documents, named};

/// Records of each family that are looked at.
const LOOKED_AT: usize = limits::PAGE_SIZE;

/// Records that are read again: those with the highest revisions.
const COMPARED: usize = 64;

/// Fewer writes than this, or fewer in a second, are not contention.
const CONTENDED: (u64, u64) = (5, 20);

/// The records, as they were when the examination began.
#[derive(Debug)]
pub(super) struct Sample {
    taken_at: Timestamp,
    records: Vec<(RecordKey, u64)>,
}

impl Sample {
    /// Reads the first records of each family, and keeps those with the highest revisions.
    pub(super) async fn take(exam: &Examination) -> Result<Self> {
        let mut records = Vec::new();
        if exam.thresholds.sample.is_zero() {
            return Ok(Self { taken_at: exam.now, records });
        }
        for family in [String::new(), documents(None, ""), quotas_taken(), rates()] {
            let is_users = family.is_empty();
            let page = exam.store.full_page(RecordQuery::prefix(family).limit(LOOKED_AT)).await?;
            let of_family = |record: &Record| !is_users || !record.key.as_str().starts_with('~');
            let of_family = page.records.into_iter().filter(of_family);
            records.extend(of_family.map(|record| (record.key, record.revision.get())));
        }
        records.sort_by_key(|(_, revision)| std::cmp::Reverse(*revision));
        records.truncate(COMPARED);
        Ok(Self { taken_at: exam.store.now().await?, records })
    }

    /// Reads the records again, and reports those that were written many times since.
    pub(super) async fn compare(self, exam: &Examination, findings: &mut Findings) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let elapsed = exam.store.now().await?.since(self.taken_at);
        tokio::time::sleep(exam.thresholds.sample.saturating_sub(elapsed)).await;
        let keys: Vec<RecordKey> = self.records.iter().map(|(key, _)| key.clone()).collect();
        let slots = exam.store.get(&keys).await?;
        let elapsed = exam.store.now().await?.since(self.taken_at);
        for ((key, before), slot) in self.records.iter().zip(&slots) {
            let writes = written_since(*before, slot);
            if is_contended(writes, elapsed) {
                findings.add(finding(key, writes, elapsed));
            }
        }
        Ok(())
    }
}

fn written_since(before: u64, slot: &Slot) -> u64 {
    slot.live().map_or(0, |record| record.revision.get().saturating_sub(before))
}

fn is_contended(writes: u64, elapsed: Duration) -> bool {
    let (least, in_a_second) = CONTENDED;
    writes >= least
        && u128::from(writes) * 1_000_000 >= u128::from(in_a_second) * elapsed.as_micros()
}

fn finding(key: &RecordKey, writes: u64, elapsed: Duration) -> Finding {
    let (subject, advice) = described(key);
    let what = format!(
        "{writes} commits wrote to it within {}: they contend with each other",
        span(elapsed)
    );
    Finding::warning(FindingKind::Hot, subject, what).advice(advice)
}

/// What the record is to its user, and how it is spread.
fn described(key: &RecordKey) -> (Subject, &'static str) {
    if let Some((kind, id)) = named(key) {
        let advice = "spread it over finer scopes; or change it by increments and edits, which the store makes without conflicts";
        return (Subject::Scope(format!("{kind}/{id}")), advice);
    }
    if let Some(quota) = quota_of_taken(key).or_else(|| rate_of(key)) {
        let advice = "give it scopes (`.of(..)`), so that each has units of its own; or take several units at once";
        return (Subject::Claim(quota.to_owned()), advice);
    }
    let advice = "spread it over several records, and add them up when they are read";
    (Subject::Record(key.clone()), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_writes_or_slow_ones_are_not_contention() {
        let second = Duration::from_secs(1);
        assert!(is_contended(20, second) && is_contended(10, second / 2));
        assert!(!is_contended(4, second / 100) && !is_contended(19, second));
    }
}
