//! Links: the events routed to a computed target, in feed order.
//!
//! A link is an event in a reserved stream of the target. So a target fed by several streams
//! receives all of their events, has versions to count its progress by, and reads only what is new.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    EventType, NewEvent, RawJson, Result, Store, StoreExt, StoredEvent, StreamName, StreamQuery,
    Version, limits,
};

use super::keys;
use super::recent::Recent;

/// A pointer to a routed event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    stream: StreamName,
    version: Version,
}

impl Link {
    /// Creates the link to this event.
    pub(crate) fn to(event: &StoredEvent) -> Result<NewEvent> {
        let link = Self { stream: event.stream.clone(), version: event.version };
        Ok(NewEvent::new(EventType::new(keys::LINK)?, RawJson::new(&link)?))
    }

    /// The stream it points to.
    pub(crate) fn stream(&self) -> &StreamName {
        &self.stream
    }

    /// The stream and the version it points to.
    pub(crate) fn into_parts(self) -> (StreamName, Version) {
        (self.stream, self.version)
    }

    /// Whether it points to an event of this stream, up to this version.
    pub(crate) fn leads_to(&self, stream: &StreamName, through: Version) -> bool {
        self.stream == *stream && self.version <= through
    }

    /// Resolves links to their events, in order; `None` for a deleted event.
    pub(crate) async fn follow(
        store: &dyn Store,
        recent: &Recent,
        links: &[StoredEvent],
    ) -> Result<Vec<Option<StoredEvent>>> {
        let links: Vec<Self> = links.iter().map(|link| link.payload.to()).collect::<Result<_>>()?;
        let mut found = BTreeMap::new();
        for (stream, versions) in missing(recent, &links, &mut found) {
            read(store, &stream, versions, &mut found).await?;
        }
        Ok(links
            .iter()
            .map(|link| found.get(&(link.stream.clone(), link.version)).cloned())
            .collect())
    }
}

type Found = BTreeMap<(StreamName, Version), StoredEvent>;

/// Versions closer together than this are read in one query.
const NEAR: u64 = 64;

/// The version ranges to read of each stream, for events that are not cached.
fn missing(
    recent: &Recent,
    links: &[Link],
    found: &mut Found,
) -> Vec<(StreamName, RangeInclusive<Version>)> {
    let mut wanted = BTreeSet::new();
    for link in links {
        match recent.get(&link.stream, link.version) {
            Some(event) => drop(found.insert((link.stream.clone(), link.version), event)),
            None => drop(wanted.insert((link.stream.clone(), link.version))),
        }
    }
    let mut ranges: Vec<(StreamName, RangeInclusive<Version>)> = Vec::new();
    for (stream, version) in wanted {
        match ranges.last_mut() {
            Some((last, span)) if *last == stream && version.get() - span.end().get() <= NEAR => {
                *span = *span.start()..=version;
            }
            _ => ranges.push((stream, version..=version)),
        }
    }
    ranges
}

async fn read(
    store: &dyn Store,
    stream: &StreamName,
    versions: RangeInclusive<Version>,
    found: &mut Found,
) -> Result<()> {
    let (first, last) = versions.into_inner();
    let limit =
        usize::try_from(last.get() - first.get() + 1).unwrap_or(usize::MAX).min(limits::PAGE_SIZE);
    let mut events = store.rows(StreamQuery::forward(stream).from(first).limit(limit));
    while let Some(event) = events.next().await? {
        let version = event.version;
        found.insert((stream.clone(), version), event);
        if version >= last {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_far_apart_are_read_in_separate_queries() {
        let link = |stream: &str, version: u64| Link {
            stream: StreamName::new(stream).unwrap(),
            version: Version::new(version).unwrap(),
        };
        let links = [link("b", 9), link("a", 100_000), link("a", 1), link("a", 40), link("a", 3)];
        let ranges = missing(&Recent::default(), &links, &mut Found::new());
        let ranges: Vec<_> =
            ranges.iter().map(|(s, v)| (s.as_str(), v.start().get(), v.end().get())).collect();
        assert_eq!(ranges, [("a", 1, 40), ("a", 100_000, 100_000), ("b", 9, 9)]);
    }
}
