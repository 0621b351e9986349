//! Follower: reads the feed while it grows, and journals the events.
//!
//! It reads the unfiltered feed, as a filter could hide what was skipped, and keeps the events of
//! this round.

use std::sync::Arc;

use tidelock::store::{FeedQuery, Topic};
use tokio::time::timeout;

use super::LOOK_AGAIN;
use crate::caller::{Bug, Caller};
use crate::journal::Entry;
use crate::pipe::Orders;
use crate::worker_spec::WorkerSpec;

/// Small, so that the end of a page falls between commits in flight.
const PAGE: usize = 100;

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (prefix, mut after) = (spec.space.stream_prefix(), spec.start);
    let mut signal = caller.store.signal(Topic::Log);
    loop {
        let finishing = orders.is_finishing();
        let query = FeedQuery::after(after).limit(PAGE);
        let mut page = caller.insist("read feed", || caller.store.read_feed(query.clone())).await?;
        after = page.next;
        page.events.retain(|event| event.stream.as_str().starts_with(&prefix));
        if !page.events.is_empty() {
            caller.note(&Entry::Seen(page.events));
        }
        if page.at_end && finishing {
            return Ok(());
        }
        if page.at_end {
            // Nothing to do if it does not come.
            let _ = timeout(LOOK_AGAIN, signal.wait()).await;
        }
    }
}
