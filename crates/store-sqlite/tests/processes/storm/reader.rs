//! A process that follows the feed while it grows.

use std::time::Duration;

use tidelock_store::{FeedQuery, Position, Store, Topic};
use tokio::time::timeout;

use super::phase::Phase;
use crate::worker::{Part, say};
use crate::{block_on, open};

/// How long to wait for a signal before polling.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Arguments: file, name.
pub(crate) fn reader(part: &Part) {
    let (store, name) = (open(part.argument(0)), part.argument(1));
    block_on(async {
        let mut signal = store.signal(Topic::Log);
        let mut after = Position::START;
        loop {
            let over = Phase::read(&store).await >= Phase::Over;
            let page = store.read_feed(FeedQuery::after(after).limit(50)).await.unwrap();
            after = page.next;
            say(format!("{name} seen {}", serde_json::to_string(&page.events).unwrap()));
            if over && page.at_end {
                return;
            }
            if page.at_end {
                let _ = timeout(LOOK_AGAIN, signal.wait()).await;
            }
        }
    });
}
