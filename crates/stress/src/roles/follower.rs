//! A worker that reads the feed while it grows, and writes down what it saw.
//!
//! It reads the feed of everything, as a filter could hide what was skipped, and keeps what is of
//! this round.

use std::sync::Arc;

use tidelock::{FeedQuery, Topic};
use tokio::time::timeout;

use super::LOOK_AGAIN;
use crate::caller::{Bug, Caller};
use crate::journal::Entry;
use crate::part::WorkerSpec;
use crate::pipe::Orders;

/// Small, so that the end of a page falls between commits that are still under way.
const PAGE: usize = 100;

pub(super) async fn work(
    part: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (prefix, mut after) = (part.space.stream_prefix(), part.start);
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
