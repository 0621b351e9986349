//! Leases: did no two workers hold an item at the same time, by the store's clock; did fences grow;
//! and was every unsettled lease taken over, and counted as an expiry? (LEASE-1, LEASE-2, LEASE-5,
//! LEASE-6)

use std::collections::HashMap;

use tidelock::Timestamp;
use tidelock::store::{Fence, ItemRef};

use super::Inquiry;
use super::commits::happened;
use crate::finding::{Finding, Kind};
use crate::ledger::Grant;

/// When leases were settled.
type Settled<'a> = HashMap<(&'a ItemRef, Fence), Timestamp>;

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let settled = settled(inquiry);
    let mut findings = Vec::new();
    for grants in inquiry.ledger.grants.values() {
        findings.extend(grants.windows(2).map(|pair| shared(&pair[0], &pair[1])));
    }
    let mut last: Option<&Grant<'_>> = None;
    for grant in inquiry.ledger.grants.values().filter_map(|grants| grants.first()) {
        let before = last.filter(|last| last.lease.item == grant.lease.item);
        findings.extend(before.and_then(|before| overlap(before, grant, &settled)));
        findings.extend(before.and_then(|before| miscounted(before, grant, &settled)));
        findings.extend(last.filter(|_| before.is_none()).and_then(|last| stuck(last, &settled)));
        last = Some(grant);
    }
    findings.extend(last.and_then(|last| stuck(last, &settled)));
    findings
}

fn settled<'a>(inquiry: &Inquiry<'a>) -> Settled<'a> {
    let ends = happened(inquiry).flat_map(|(commit, committed)| {
        let leases = commit.settlements.iter().map(|settlement| &settlement.lease);
        leases.map(|lease| ((&lease.item, lease.fence), committed.at))
    });
    ends.collect()
}

fn shared(one: &Grant<'_>, other: &Grant<'_>) -> Finding {
    let what = format!("{} and {} were granted the same lease: {}", one.who, other.who, name(one));
    Finding::new(Kind::Overlap, what)
}

/// A lease ends when it is settled, however late; if it is not, then at its deadline.
fn overlap(before: &Grant<'_>, after: &Grant<'_>, settled: &Settled<'_>) -> Option<Finding> {
    let settled = settled.get(&(&before.lease.item, before.lease.fence));
    let (until, how) = settled.map_or((before.deadline, "expired"), |at| (*at, "was settled"));
    (after.at < until).then(|| {
        let what = format!(
            "{} was granted {} at {}, when {} held fence {}, which {how} at {until}",
            after.who,
            name(after),
            after.at,
            before.who,
            before.lease.fence
        );
        Finding::new(Kind::Overlap, what)
    })
}

/// A fence in between belongs to a holder that died before it could write its journal.
fn miscounted(before: &Grant<'_>, after: &Grant<'_>, settled: &Settled<'_>) -> Option<Finding> {
    let (old, new) = (before.lease, after.lease);
    let expired = new.fence == old.fence.plus(1) && !settled.contains_key(&(&old.item, old.fence));
    let counted = new.expiries == old.expiries + 1 && new.attempts == old.attempts + 1;
    (expired && !counted).then(|| {
        let what = format!(
            "{} took over {} with {} expiries and {} attempts, and {} had had {} and {}",
            after.who,
            name(after),
            new.expiries,
            new.attempts,
            before.who,
            old.expiries,
            old.attempts
        );
        Finding::new(Kind::MiscountedExpiry, what)
    })
}

fn stuck(last: &Grant<'_>, settled: &Settled<'_>) -> Option<Finding> {
    let ended = settled.contains_key(&(&last.lease.item, last.lease.fence));
    (!ended).then(|| {
        let what = format!(
            "{} was granted {}, and was neither settled nor taken over",
            last.who,
            name(last)
        );
        Finding::new(Kind::StuckLease, what)
    })
}

fn name(grant: &Grant<'_>) -> String {
    format!("{} with fence {}", grant.lease.item, grant.lease.fence)
}
