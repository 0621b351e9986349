//! Cache of link stream versions. Apart from late routes, only the holder of a route appends to
//! them.

use std::collections::HashMap;

use tidelock_store::{HeadQuery, Result, Store, StreamName, Version};

use super::batch::RoutingBatch;

/// The maximum number of cached streams.
const STREAMS: usize = 100_000;

/// The version of each stream; `None` if it does not exist.
pub(super) type Versions = HashMap<StreamName, Option<Version>>;

/// Cached versions of link streams.
#[derive(Debug, Default)]
pub(super) struct LinkHeads {
    known: Versions,
}

impl LinkHeads {
    /// The cached versions of a batch's streams.
    pub(super) fn known(&self, batch: &RoutingBatch) -> Versions {
        let known = |stream: &StreamName| Some((stream.clone(), *self.known.get(stream)?));
        batch.linked_streams().into_iter().filter_map(known).collect()
    }

    /// Advances the versions after a commit.
    pub(super) fn moved(&mut self, batch: &RoutingBatch, before: &Versions) {
        if self.known.len() > STREAMS {
            self.known.clear();
        }
        for (stream, linked) in &batch.links {
            let head = before.get(stream).copied().flatten().map_or(0, Version::get);
            let head = Version::new(head + linked.events.len() as u64).ok();
            self.known.insert(stream.clone(), head);
        }
    }

    /// Drops the versions of a batch's streams after a conflict.
    pub(super) fn forget(&mut self, batch: &RoutingBatch) {
        for stream in batch.links.keys() {
            self.known.remove(stream);
        }
    }
}

/// Reads the versions that are not cached.
pub(super) async fn complete(
    store: &dyn Store,
    mut known: Versions,
    batch: &RoutingBatch,
) -> Result<Versions> {
    let unknown: Vec<StreamName> = batch
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
