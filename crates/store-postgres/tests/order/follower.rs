//! A reader that follows the feed while several processes' worth of handles write in every way there is.

use std::collections::HashSet;

use tidelock_store::{Bounds, Event, FeedQuery, Position, RecordKey, Store, Write};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{Ground, accepted, append, committed, event, feed_after, soon, stream};

const HANDLES: usize = 3;
const CALLERS: usize = 8;
/// A multiple of the ways in which a caller writes.
const COMMITS: usize = 40;

/// Each round of a caller's ways of writing adds this many events.
const EVENTS_IN_A_ROUND: usize = 1 + 1 + 3 + 1;

/// Schedules 1, 2 and 4. LOG-7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_follows_a_storm_of_commits_misses_nothing() {
    let ground = Ground::shared();
    let total = HANDLES * CALLERS * COMMITS / 4 * EVENTS_IN_A_ROUND;
    let reader = ground.open().await;
    let following = tokio::spawn(async move {
        let followed = follow(&reader, total).await;
        (followed, feed_after(&reader, Position::START).await)
    });
    let mut callers = Vec::new();
    for handle in 0..HANDLES {
        let store = ground.open().await;
        callers.extend((0..CALLERS).map(|n| tokio::spawn(write(store.clone(), format!("{handle}-{n}")))));
    }
    for caller in callers {
        soon("a caller", caller).await.unwrap();
    }
    let (followed, feed) = soon("the reader", following).await.unwrap();
    assert_eq!(feed.len(), total);
    assert!(followed == feed, "the reader saw another feed than there is in the end");
    assert_eq!(feed.iter().map(|event| event.id).collect::<HashSet<_>>().len(), total);
    assert!(feed.iter().map(|event| event.position).is_sorted());
}

/// Reads page after page, without a pause, until so many events were seen.
async fn follow(store: &PostgresStore, total: usize) -> Vec<Event> {
    let (mut events, mut position) = (Vec::new(), Position::START);
    while events.len() < total {
        let page = store.read_feed(FeedQuery::after(position).limit(7)).await.unwrap();
        events.extend(page.events);
        position = page.next;
    }
    events
}

async fn write(store: PostgresStore, name: String) {
    for nth in 0..COMMITS {
        match nth % 4 {
            0 => drop(committed(&store, append(&name, "alone")).await),
            1 => drop(committed(&store, append("crowd", "together")).await),
            2 => drop(committed(&store, long(&name)).await),
            _ => through_the_door(&store, &name).await,
        }
    }
}

/// A commit that is more than an append.
fn long(name: &str) -> tidelock_store::Commit {
    let count = RecordKey::new("count").unwrap();
    append(&format!("{name}-long"), "one")
        .append(&stream("crowd-too"), tidelock_store::ExpectedVersion::Any, [event("two"), event("three")])
        .write(Write::add(&count, 1, Bounds::NONE))
}

async fn through_the_door(store: &PostgresStore, name: &str) {
    let own = soon("a connection", store.begin()).await.unwrap();
    own.execute("SELECT pg_current_xact_id()", &[]).await.unwrap();
    accepted(soon("a commit", own.commit(append(&format!("{name}-door"), "own"))).await.unwrap());
}
