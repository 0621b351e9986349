//! Counters: is every counter the sum of the commits that happened? They are written in the same
//! commits as the events (COMMIT-1, REC-4).

use std::collections::BTreeMap;

use tidelock::store::{Change, RecordKey};

use super::Inquiry;
use super::commits::happened;
use crate::finding::{Finding, Kind};

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let sums = sums(inquiry);
    let wrong = |(key, there): (&RecordKey, &i64)| {
        let sum = sums.get(key).copied().unwrap_or(0);
        let what =
            || format!("counter {key:?} is {there}, and commits that add up to {sum} happened");
        (sum != *there).then(|| Finding::new(Kind::WrongTotal, what()))
    };
    inquiry.evidence.totals.iter().filter_map(wrong).collect()
}

fn sums<'a>(inquiry: &Inquiry<'a>) -> BTreeMap<&'a RecordKey, i64> {
    let mut sums = BTreeMap::new();
    for write in happened(inquiry).flat_map(|(commit, _)| &commit.writes) {
        if let Change::Add { delta, .. } = write.change {
            *sums.entry(&write.key).or_default() += delta;
        }
    }
    sums
}
