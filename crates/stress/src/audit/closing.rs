//! Closing: is every acknowledged booking in the archive or still in its stream, exactly once and
//! in order, and no refused one; does each account continue from all of its bookings; and did every
//! closing end? (CLOSE-1 to CLOSE-6)

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Inquiry;
use crate::account::Kept;
use crate::finding::{Finding, Kind};
use crate::journal::Entry;

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let Some(accounts) = &inquiry.evidence.accounts else { return Vec::new() };
    let (archives, mut findings) = archives(inquiry);
    let (mut there, empty) = (HashMap::<&str, usize>::new(), BTreeMap::new());
    for (name, account) in accounts {
        let archive = archives.get(name.as_str()).unwrap_or(&empty);
        let mut found = Vec::new();
        let left = account.left.iter().map(|(version, id)| (*version, id.as_str()));
        let gone = archive.iter().map(|(version, id)| (*version, *id));
        let mut events: Vec<(u64, &str)> = gone.chain(left).collect();
        events.sort_unstable();
        for ((version, id), expected) in
            events.iter().zip(1..).filter(|((version, _), nth)| version != nth)
        {
            found.push((
                Kind::Gap,
                format!("booking {id:?} is version {version}, where {expected} should be"),
            ));
        }
        if account.bookings.is_some_and(|bookings| bookings != events.len() as u64) {
            let what =
                format!("its state counts {:?} bookings of {}", account.bookings, events.len());
            found.push((Kind::WrongTotal, what));
        }
        events.iter().for_each(|(_, id)| *there.entry(id).or_default() += 1);
        found.extend(
            account.open.then(|| (Kind::Unfinished, "its books are half closed".to_owned())),
        );
        findings.extend(
            found
                .into_iter()
                .map(|(kind, what)| Finding::new(kind, format!("account {name}: {what}"))),
        );
    }
    findings.extend(misplaced(inquiry, &there));
    findings
}

fn entries<'a>(inquiry: &Inquiry<'a>) -> impl Iterator<Item = &'a Entry> {
    inquiry.evidence.journals.iter().flat_map(|(_, entries)| entries)
}

/// The archived events of each account by version, and pages that were archived again after a
/// finished closing.
fn archives<'a>(inquiry: &Inquiry<'a>) -> (HashMap<&'a str, BTreeMap<u64, &'a str>>, Vec<Finding>) {
    let mut archives: HashMap<&str, BTreeMap<u64, &str>> = HashMap::new();
    let (mut findings, mut ended) = (Vec::new(), HashSet::new());
    for (who, entries) in &inquiry.evidence.journals {
        let mut call: Vec<(&str, &Kept)> = Vec::new();
        for entry in entries {
            match entry {
                Entry::Closing { .. } => call.clear(),
                Entry::Archived { account, events } => {
                    call.extend(events.iter().map(|event| (account.as_str(), event)));
                    for (version, id) in events {
                        let first =
                            *archives.entry(account).or_default().entry(*version).or_insert(id);
                        if first != id {
                            let what = format!(
                                "account {account}: version {version} is {first:?} and {id:?}"
                            );
                            findings.push(Finding::new(Kind::Contradiction, what));
                        }
                    }
                }
                Entry::Closed { .. } => {
                    findings.extend(call.windows(2).filter(|pair| pair[1].1.0 <= pair[0].1.0).map(
                        |pair| {
                            Finding::new(
                                Kind::OutOfOrder,
                                format!("{who} archived {:?} after {:?}", pair[1], pair[0]),
                            )
                        },
                    ));
                    for event in call.drain(..) {
                        if !ended.insert(event) {
                            findings.push(Finding::new(
                                Kind::DoneTwice,
                                format!("{event:?} was archived"),
                            ));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    (archives, findings)
}

/// Bookings that are not stored exactly once although they were acknowledged, or are stored
/// although they were refused.
fn misplaced(inquiry: &Inquiry<'_>, there: &HashMap<&str, usize>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for entry in entries(inquiry) {
        findings.extend(match entry {
            Entry::Booked(id) if !there.contains_key(id.as_str()) => Some(Finding::new(
                Kind::LostCommit,
                format!("booking {id:?} was acknowledged, and is nowhere"),
            )),
            Entry::Booking { id, .. } if there.get(id.as_str()).is_some_and(|count| *count > 1) => {
                Some(Finding::new(
                    Kind::DoubledEvent,
                    format!("booking {id:?} is there more than once"),
                ))
            }
            Entry::Shut(id) if there.contains_key(id.as_str()) => {
                let what = format!("booking {id:?} was refused, and is there");
                Some(Finding::new(Kind::WrittenThoughRefused, what))
            }
            _ => None,
        });
    }
    findings
}
