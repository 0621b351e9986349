//! The versions of link streams, remembered: only the holder of a route appends to them, but for a
//! late route now and then.

use std::collections::HashMap;

use tidelock_store::{HeadQuery, Result, Store, StreamName, Version};

use super::batch::RoutingBatch;

/// Streams remembered at most.
const STREAMS: usize = 100_000;

/// The version of each stream; none if it does not exist.
pub(super) type Versions = HashMap<StreamName, Option<Version>>;

/// What is known of link streams.
#[derive(Debug, Default)]
pub(super) struct LinkHeads {
    known: Versions,
}

impl LinkHeads {
    /// What is known of a portion's streams.
    pub(super) fn known(&self, portion: &RoutingBatch) -> Versions {
        let known = |stream: &StreamName| Some((stream.clone(), *self.known.get(stream)?));
        portion.linked_streams().into_iter().filter_map(known).collect()
    }

    /// Its links are there now.
    pub(super) fn moved(&mut self, portion: &RoutingBatch, before: &Versions) {
        if self.known.len() > STREAMS {
            self.known.clear();
        }
        for (stream, linked) in &portion.links {
            let tip = before.get(stream).copied().flatten().map_or(0, Version::get);
            let tip = Version::new(tip + linked.events.len() as u64).ok();
            self.known.insert(stream.clone(), tip);
        }
    }

    /// What was known of its streams may be wrong.
    pub(super) fn forget(&mut self, portion: &RoutingBatch) {
        for stream in portion.links.keys() {
            self.known.remove(stream);
        }
    }
}

/// Asks the store for what is not known.
pub(super) async fn complete(
    store: &dyn Store,
    mut known: Versions,
    portion: &RoutingBatch,
) -> Result<Versions> {
    let unknown: Vec<StreamName> = portion
        .linked_streams()
        .into_iter()
        .filter(|stream| !known.contains_key(*stream))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        let page = store.heads(HeadQuery::Named(unknown)).await?;
        known.extend(page.heads.into_iter().map(|head| (head.stream, head.state.version())));
    }
    Ok(known)
}
