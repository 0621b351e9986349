//! Locates, in the new store, events that an export refers to by their old positions.

use std::collections::{BTreeMap, VecDeque};

use tidelock::reactions::{MappedPosition, PositionMap};
use tidelock::store::{Position, Store, StoreExt, StoredEvent, StreamName, Version};

use crate::failure::{Failure, Result};

/// The events to locate, found while all events pass in the order of the feed.
#[derive(Debug)]
pub(super) struct PositionLookup {
    /// Positions that have not been passed yet, in order.
    ahead: VecDeque<Position>,
    /// The last event up to each position, and whether it is exactly there.
    found: BTreeMap<Position, Option<(StreamName, Version, bool)>>,
    last: Option<(StreamName, Version)>,
}

impl PositionLookup {
    pub(super) fn new(remembered: &[Position]) -> Self {
        let mut ahead = remembered.to_vec();
        ahead.sort_unstable();
        Self { ahead: ahead.into(), found: BTreeMap::new(), last: None }
    }

    /// Passes an event.
    pub(super) fn pass(&mut self, event: &StoredEvent) {
        while let Some(place) = self.ahead.front().copied().filter(|place| *place < event.position)
        {
            self.ahead.pop_front();
            self.found
                .insert(place, self.last.clone().map(|(stream, version)| (stream, version, false)));
        }
        if self.ahead.front() == Some(&event.position) {
            self.ahead.pop_front();
            self.found.insert(event.position, Some((event.stream.clone(), event.version, true)));
        }
        if !self.ahead.is_empty() {
            self.last = Some((event.stream.clone(), event.version));
        }
    }

    /// Looks up their new positions.
    pub(super) async fn look_up(mut self, store: &dyn Store) -> Result<PositionMap> {
        for place in std::mem::take(&mut self.ahead) {
            self.found
                .insert(place, self.last.clone().map(|(stream, version)| (stream, version, false)));
        }
        let mut lookup = BTreeMap::new();
        for (place, found) in self.found {
            let landmark = match found {
                Some((stream, version, exact)) => {
                    MappedPosition { position: position(store, &stream, version).await?, exact }
                }
                None => MappedPosition { position: Position::START, exact: false },
            };
            lookup.insert(place, landmark);
        }
        Ok(PositionMap::new(lookup))
    }
}

async fn position(store: &dyn Store, stream: &StreamName, version: Version) -> Result<Position> {
    let event = store.event(stream, version).await?;
    event.map(|event| event.position).ok_or_else(|| {
        Failure::refused(
            format!("version {version} of stream {stream:?} was imported, and is gone"),
            "an import into a store that is not in use",
        )
    })
}
