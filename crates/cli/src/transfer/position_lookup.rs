//! Where the events lie, in the new store, that something in an export remembers by their positions
//! in the old one.

use std::collections::{BTreeMap, VecDeque};

use tidelock::reactions::{MappedPosition, PositionMap};
use tidelock::{Position, Store, StoreExt, StoredEvent, StreamName, Version};

use crate::failure::Failure;

/// The events that matter, found while they pass in the order of the feed.
#[derive(Debug)]
pub(super) struct Landmarks {
    /// What is not passed yet, in order.
    ahead: VecDeque<Position>,
    /// The last event up to each place, and whether it is the one at that place.
    found: BTreeMap<Position, Option<(StreamName, Version, bool)>>,
    last: Option<(StreamName, Version)>,
}

impl Landmarks {
    pub(super) fn new(remembered: &[Position]) -> Self {
        let mut ahead = remembered.to_vec();
        ahead.sort_unstable();
        Self { ahead: ahead.into(), found: BTreeMap::new(), last: None }
    }

    /// An event passes.
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

    /// Looks them up where they are now.
    pub(super) async fn look_up(mut self, store: &dyn Store) -> Result<PositionMap, Failure> {
        for place in std::mem::take(&mut self.ahead) {
            self.found
                .insert(place, self.last.clone().map(|(stream, version)| (stream, version, false)));
        }
        let mut landmarks = BTreeMap::new();
        for (place, found) in self.found {
            let landmark = match found {
                Some((stream, version, exact)) => {
                    MappedPosition { position: position(store, &stream, version).await?, exact }
                }
                None => MappedPosition { position: Position::START, exact: false },
            };
            landmarks.insert(place, landmark);
        }
        Ok(PositionMap::new(landmarks))
    }
}

async fn position(
    store: &dyn Store,
    stream: &StreamName,
    version: Version,
) -> Result<Position, Failure> {
    let event = store.event(stream, version).await?;
    event.map(|event| event.position).ok_or_else(|| {
        Failure::refused(
            format!(
                "version {version} of stream {stream:?} was imported, and is not there any more"
            ),
            "an import into a store that nobody else changes meanwhile",
        )
    })
}
