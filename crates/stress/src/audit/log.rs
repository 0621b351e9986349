//! Log: are the versions of every stream contiguous, does the feed hold every event once and in
//! order, and did no follower miss one? (LOG-2, LOG-4, LOG-7)

use std::collections::{BTreeMap, HashSet};

use tidelock::store::{StoredEvent, StreamName};

use super::Inquiry;
use crate::finding::{Finding, Kind};
use crate::journal::Entry;

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let evidence = inquiry.evidence;
    let mut findings = doubled(&evidence.feed);
    findings.extend(unordered(&evidence.feed));
    findings.extend(evidence.streams.iter().filter_map(|(stream, events)| gap(stream, events)));
    findings.extend(not_as_in_the_feed(inquiry));
    for (who, entries) in &evidence.journals {
        findings.extend(missed(who, entries, &evidence.feed));
    }
    findings
}

fn doubled(feed: &[StoredEvent]) -> Vec<Finding> {
    let mut seen = HashSet::new();
    let twice = feed.iter().filter(|event| !seen.insert(event.id));
    twice.map(|event| Finding::new(Kind::DoubledEvent, place(event))).collect()
}

fn unordered(feed: &[StoredEvent]) -> Option<Finding> {
    let pair = feed.windows(2).find(|pair| pair[0].position >= pair[1].position)?;
    let what = format!("{} comes after {}", place(&pair[1]), place(&pair[0]));
    Some(Finding::new(Kind::FeedDiffers, what))
}

fn gap(stream: &StreamName, events: &[StoredEvent]) -> Option<Finding> {
    let (expected, event) =
        (1..).zip(events).find(|(expected, event)| event.version.get() != *expected)?;
    let what =
        format!("stream {stream:?} has version {} where {expected} should be", event.version);
    Some(Finding::new(Kind::Gap, what))
}

/// Every stream equals its part of the feed.
fn not_as_in_the_feed(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let mut in_feed: BTreeMap<&StreamName, Vec<&StoredEvent>> = BTreeMap::new();
    for event in &inquiry.evidence.feed {
        in_feed.entry(&event.stream).or_default().push(event);
    }
    let streams = &inquiry.evidence.streams;
    let names: HashSet<&StreamName> = in_feed.keys().copied().chain(streams.keys()).collect();
    let differs = |name: &&StreamName| {
        let by_itself = streams.get(*name).into_iter().flatten();
        !by_itself.eq(in_feed.get(*name).into_iter().flatten().copied())
    };
    let tell = |name: &StreamName| format!("stream {name:?} is not what the feed has of it");
    names
        .into_iter()
        .filter(differs)
        .map(|name| Finding::new(Kind::FeedDiffers, tell(name)))
        .collect()
}

/// The first position where a follower's events differ from the store's.
fn missed(who: &str, entries: &[Entry], feed: &[StoredEvent]) -> Option<Finding> {
    let pages = entries.iter().filter_map(|entry| match entry {
        Entry::Seen(events) => Some(events),
        _ => None,
    });
    let seen: Vec<&StoredEvent> = pages.flatten().collect();
    if !who.starts_with(crate::plan::FOLLOWER) || seen.iter().copied().eq(feed) {
        return None;
    }
    let at = seen.iter().zip(feed).take_while(|(seen, there)| **seen == *there).count();
    let at_place = |event: Option<&StoredEvent>| event.map_or("nothing".to_owned(), place);
    let what = format!(
        "{who} saw {} where there is {}; it saw {} events and there are {}",
        at_place(seen.get(at).copied()),
        at_place(feed.get(at)),
        seen.len(),
        feed.len()
    );
    Some(Finding::new(Kind::SkippedInFeed, what))
}

fn place(event: &StoredEvent) -> String {
    format!(
        "event {} at position {}, version {} of stream {:?}",
        event.id, event.position, event.version, event.stream
    )
}
