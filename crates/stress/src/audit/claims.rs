//! Claims: has every key one result, reported alike to all callers; did locks have one holder at a
//! time, with growing fences and no late write; was no quota exceeded; and was everything returned?
//! (CLAIM-1, CLAIM-3, CLAIM-5, CLAIM-10, CLAIM-12, CLAIM-14)

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::de::DeserializeOwned;
use tidelock::Timestamp;
use tidelock::store::{Fence, StoredEvent};

use super::Inquiry;
use crate::claim::{Bump, Completed, Quota};
use crate::claim_audit::ClaimAudit;
use crate::finding::{Finding, Kind};
use crate::journal::Entry;

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let Some(claim_audit) = &inquiry.evidence.claim_audit else { return Vec::new() };
    let stuck = claim_audit.stuck.iter().map(|what| Finding::new(Kind::StuckLease, what.as_str()));
    let mut findings: Vec<Finding> = stuck.collect();
    findings.extend(granted_twice(inquiry));
    for (lock, events) in &claim_audit.bumps {
        findings.extend(disorder(*lock, &said::<Bump>(events)));
    }
    findings.extend(late(inquiry, claim_audit));
    findings.extend(contradicted(inquiry, claim_audit));
    findings.extend(Quota::ALL.into_iter().filter_map(|quota| exceeded(inquiry, quota)));
    findings
}

fn entries<'a>(inquiry: &Inquiry<'a>) -> impl Iterator<Item = &'a Entry> {
    inquiry.evidence.journals.iter().flat_map(|(_, entries)| entries)
}

fn said<T: DeserializeOwned>(events: &[StoredEvent]) -> Vec<T> {
    events.iter().filter_map(|event| event.payload.to().ok()).collect()
}

/// A fence of a lock or a key belongs to one holder.
fn granted_twice(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let mut granted = HashSet::new();
    let grants = entries(inquiry).filter_map(|entry| match entry {
        Entry::Locked { lock, fence, .. } => Some((format!("lock {lock}"), *fence)),
        Entry::Won { key, fence } => Some((format!("key {key:?}"), *fence)),
        _ => None,
    });
    let twice = grants.filter(|grant| !granted.insert(grant.clone()));
    let tell = |(name, fence)| format!("{name} was granted twice under fence {fence}");
    twice.map(|grant| Finding::new(Kind::Overlap, tell(grant))).collect()
}

/// Writes under a lock follow one another, each with a newer fence and on top of the one before.
fn disorder(lock: u64, bumps: &[Bump]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pair in bumps.windows(2).filter(|pair| pair[1].fence <= pair[0].fence) {
        let what =
            format!("lock {lock}: fence {} wrote after fence {} had", pair[1].fence, pair[0].fence);
        findings.push(Finding::new(Kind::Overlap, what));
    }
    for (count, bump) in (1..).zip(bumps).filter(|(count, bump)| bump.total != *count) {
        let what = format!("lock {lock}: write {count} made the total {}", bump.total);
        findings.push(Finding::new(Kind::WrongTotal, what));
    }
    findings
}

/// Acknowledged writes under a lock are in the store, refused ones are not, and none happened once
/// another process held the lock.
fn late(inquiry: &Inquiry<'_>, claim_audit: &ClaimAudit) -> Vec<Finding> {
    let mut written: HashMap<(u64, Fence), Timestamp> = HashMap::new();
    for (lock, events) in &claim_audit.bumps {
        let bump =
            |event: &StoredEvent| Some((event.payload.to::<Bump>().ok()?.fence, event.recorded_at));
        written.extend(events.iter().filter_map(bump).map(|(fence, at)| ((*lock, fence), at)));
    }
    let mut findings = Vec::new();
    for entry in entries(inquiry) {
        findings.extend(match entry {
            Entry::Bumped { lock, fence } if !written.contains_key(&(*lock, *fence)) => {
                let what = format!(
                    "lock {lock}: the write of fence {fence} was acknowledged, and is not there"
                );
                Some(Finding::new(Kind::LostCommit, what))
            }
            Entry::Outrun { lock, fence } if written.contains_key(&(*lock, *fence)) => {
                let what =
                    format!("lock {lock}: the write of fence {fence} was refused, and is there");
                Some(Finding::new(Kind::WrittenThoughRefused, what))
            }
            Entry::Locked { lock, fence, since } => behind(&written, *lock, *fence, *since),
            _ => None,
        });
    }
    findings
}

/// A write under an earlier fence while a later one was held.
fn behind(
    written: &HashMap<(u64, Fence), Timestamp>,
    lock: u64,
    fence: Fence,
    since: Timestamp,
) -> Option<Finding> {
    let is_behind = |((other, earlier), at): &(&(u64, Fence), &Timestamp)| {
        *other == lock && *earlier < fence && **at > since
    };
    let ((_, earlier), at) = written.iter().find(is_behind)?;
    let what = format!(
        "lock {lock}: fence {earlier} wrote at {at}, and fence {fence} held it since {since}"
    );
    Some(Finding::new(Kind::Overlap, what))
}

/// A key is completed once, and every caller receives the stored result.
fn contradicted(inquiry: &Inquiry<'_>, claim_audit: &ClaimAudit) -> Vec<Finding> {
    let (mut results, mut findings) = (HashMap::new(), Vec::new());
    for Completed { key, result } in said(&claim_audit.completions) {
        if let Some(first) = results.insert(key.clone(), result) {
            let what = format!("key {key:?} was completed before, with {first:?}");
            findings.push(Finding::new(Kind::DoneTwice, what));
        }
    }
    for entry in entries(inquiry) {
        let Entry::Receipt { key, result } = entry else { continue };
        let there = results.get(key);
        if there != Some(result) {
            let what = format!("key {key:?}: a worker was told {result:?}, and there is {there:?}");
            findings.push(Finding::new(Kind::Contradiction, what));
        }
    }
    findings
}

/// The first moment at which a quota was exceeded. Units count from when they were granted to just
/// before they were returned.
fn exceeded(inquiry: &Inquiry<'_>, quota: Quota) -> Option<Finding> {
    let back: HashMap<&str, Timestamp> = entries(inquiry)
        .filter_map(|entry| match entry {
            Entry::GivesBack { id, at } => Some((id.as_str(), *at)),
            _ => None,
        })
        .collect();
    let mut changes: BTreeMap<Timestamp, i64> = BTreeMap::new();
    for entry in entries(inquiry) {
        let Entry::Took { id, quota: of, units, from, until } = entry else { continue };
        let until = back.get(id.as_str()).map_or(*until, |at| *until.min(at));
        if *of == quota && *from < until {
            *changes.entry(*from).or_default() += units;
            *changes.entry(until).or_default() -= units;
        }
    }
    let mut out = 0;
    let first = changes.into_iter().find_map(|(at, change)| {
        out += change;
        (out > quota.limit()).then_some((at, out))
    });
    let tell = |(at, out)| {
        format!("{out} units of {quota:?} were out at {at}, and there are {}", quota.limit())
    };
    first.map(|first| Finding::new(Kind::Exceeded, tell(first)))
}
