//! Mutual exclusion by the store's clock: no two holders at once, and no write under a fence once a
//! later one was granted.
//!
//! The object checker asks for an order of the answers; this one compares the store's own times.
//! `O(n log n)` in the grants and the writes under them.

use std::collections::{BTreeMap, HashMap};

use super::cases::Fate;
use super::{Inquiry, Report};
use crate::history::{Action, Answer, Outcome, Part};

/// What is known about one fence of a right.
#[derive(Debug, Default)]
struct Hold<'a> {
    holder: &'a str,
    /// Granted at this moment, or before.
    since: i64,
    until: i64,
    /// Given back at this moment or later.
    ended: Option<i64>,
    /// It may have been given back at any time.
    may_have_ended: bool,
}

type Holds<'a> = HashMap<&'a str, BTreeMap<u64, Hold<'a>>>;

/// Checks every right.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut holds = grants(inquiry);
    renewals(inquiry, &mut holds);
    ends(inquiry, &mut holds);
    for (right, holds) in &holds {
        overlaps(right, holds, report);
    }
    stale_writes(inquiry, &holds, report);
}

fn grants<'a>(inquiry: &Inquiry<'a>) -> Holds<'a> {
    let mut holds: Holds<'_> = HashMap::new();
    for operation in &inquiry.history.operations {
        let (Action::Acquire { holder, .. }, Outcome::Done(Answer::Granted(grants))) =
            (&operation.action, &operation.outcome)
        else {
            continue;
        };
        for grant in grants {
            let hold = Hold { holder, since: grant.since, until: grant.until, ..Hold::default() };
            let known = holds.entry(&grant.right).or_default().entry(grant.fence).or_insert(hold);
            known.since = known.since.min(grant.since);
            known.until = known.until.max(grant.until);
        }
    }
    holds
}

fn renewals(inquiry: &Inquiry<'_>, holds: &mut Holds<'_>) {
    for operation in &inquiry.history.operations {
        if let (Action::Renew { right, fence }, Outcome::Done(Answer::Renewed(until))) =
            (&operation.action, &operation.outcome)
            && let Some(hold) = find(holds, right, *fence)
        {
            hold.until = hold.until.max(*until);
        }
    }
}

fn find<'a, 'b>(holds: &'b mut Holds<'a>, right: &str, fence: u64) -> Option<&'b mut Hold<'a>> {
    holds.get_mut(right)?.get_mut(&fence)
}

fn ends(inquiry: &Inquiry<'_>, holds: &mut Holds<'_>) {
    for case in &inquiry.cases {
        for part in &case.commit.parts {
            let Part::Settle { right, fence } = part else { continue };
            let Some(hold) = find(holds, right, *fence) else { continue };
            match &case.fate {
                Fate::Landed { at: Some(at), .. } => {
                    hold.ended = Some(hold.ended.map_or(*at, |end| end.min(*at)));
                }
                Fate::Landed { at: None, .. } | Fate::Unknown => hold.may_have_ended = true,
                Fate::Never => {}
            }
        }
    }
    for operation in &inquiry.history.operations {
        match (&operation.action, &operation.outcome) {
            (Action::Release { right, fence, .. }, Outcome::Done(_) | Outcome::Unknown(_)) => {
                if let Some(hold) = find(holds, right, *fence) {
                    // The moment of the call is before the release.
                    match operation.invoked.at {
                        Some(at) => hold.ended = Some(hold.ended.map_or(at, |end| end.min(at))),
                        None => hold.may_have_ended = true,
                    }
                }
            }
            (Action::Revoke { prefix }, _) => {
                let named = holds.iter_mut().filter(|(right, _)| right.starts_with(prefix));
                named.flat_map(|(_, holds)| holds.values_mut()).for_each(|hold| {
                    hold.may_have_ended = true;
                });
            }
            _ => {}
        }
    }
}

/// Each fence is granted after the one before it has ended, and by time in the order of fences.
fn overlaps(right: &str, holds: &BTreeMap<u64, Hold<'_>>, report: &mut Report) {
    for ((fence, hold), (next_fence, next)) in holds.iter().zip(holds.iter().skip(1)) {
        let end = hold.ended.map_or(hold.until, |end| end.min(hold.until));
        if next.since < end && !hold.may_have_ended {
            let story = format!(
                "{right}: {} holds it under fence {fence} until {end}, and {} under {next_fence} since {}",
                hold.holder, next.holder, next.since
            );
            report.add("two holders", story);
        }
    }
}

/// Commits that landed under a fence after a later one was granted, by the store's clock.
fn stale_writes(inquiry: &Inquiry<'_>, holds: &Holds<'_>, report: &mut Report) {
    let successors: HashMap<&str, BTreeMap<u64, (u64, i64)>> =
        holds.iter().map(|(right, holds)| (*right, successors(holds))).collect();
    for case in &inquiry.cases {
        let Fate::Landed { at: Some(at), .. } = case.fate else { continue };
        for part in &case.commit.parts {
            let (Part::Fence { right, fence } | Part::Settle { right, fence }) = part else {
                continue;
            };
            let Some(successors) = successors.get(right.as_str()) else { continue };
            let later = successors.range(fence + 1..).next();
            if let Some((_, (next, since))) = later.filter(|(_, (_, since))| *since < at) {
                let story = format!(
                    "{} landed at {at} under fence {fence} of {right}, and fence {next} was granted at {since}",
                    case.name
                );
                report.add("stale write", story);
            }
        }
    }
}

/// For each fence, the earliest grant of it or of a later one.
fn successors(holds: &BTreeMap<u64, Hold<'_>>) -> BTreeMap<u64, (u64, i64)> {
    let mut earliest: Option<(u64, i64)> = None;
    let suffixes = holds.iter().rev().map(|(fence, hold)| {
        let one = (*fence, hold.since);
        let best = earliest.filter(|(_, since)| *since < hold.since).unwrap_or(one);
        earliest = Some(best);
        (*fence, best)
    });
    suffixes.collect()
}
