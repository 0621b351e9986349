//! Readers that follow the feed while several handles write in every possible way.

use std::collections::HashSet;
use std::sync::Arc;

use tidelock_store::{
    Bounds, Commit, CommitId, ExpectedVersion, FeedQuery, Position, RecordKey, RecordWrite, Store,
    StoredEvent,
};
use tidelock_store_postgres::PostgresStore;
use tokio::task::JoinHandle;

use crate::ground::{Ground, Plain, accepted, append, committed, event, feed_after, soon, stream};

const HANDLES: usize = 3;
const CALLERS: usize = 8;
/// A multiple of the number of ways in which a caller writes.
const COMMITS: usize = 60;

/// The events that each round of a caller adds.
const EVENTS_IN_A_ROUND: usize = 1 + 1 + 3 + 5 + 1;

/// The page size of each reader; the last one reads only some streams.
const PAGES: [usize; 4] = [1, 7, 100, 3];

/// Schedules 1, 2 and 4. LOG-7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_follow_a_storm_of_commits_miss_nothing() {
    let ground = Ground::shared();
    let total = HANDLES * CALLERS * COMMITS / 6 * EVENTS_IN_A_ROUND;
    let reader = ground.open().await;
    let mut following: Vec<JoinHandle<Vec<StoredEvent>>> = Vec::new();
    for (limit, prefix) in PAGES.into_iter().zip(["", "", "", "crowd"]) {
        let end = if prefix.is_empty() { total } else { HANDLES * CALLERS * COMMITS / 6 * 3 };
        following.push(tokio::spawn(follow(ground.open().await, limit, prefix, end)));
    }
    let mut callers = Vec::new();
    for handle in 0..HANDLES {
        let (store, plain) = (ground.open().await, Arc::new(ground.connect().await));
        callers.extend(
            (0..CALLERS).map(|n| {
                tokio::spawn(write(store.clone(), plain.clone(), format!("{handle}-{n}")))
            }),
        );
    }
    for caller in callers {
        soon("a caller", caller).await.unwrap();
    }
    let mut followed = Vec::new();
    for reader in following {
        followed.push(soon("a reader", reader).await.unwrap());
    }
    let feed = feed_after(&reader, Position::START).await;
    assert_eq!(feed.len(), total);
    assert_eq!(feed.iter().map(|event| event.id).collect::<HashSet<_>>().len(), total);
    assert!(feed.iter().map(|event| event.position).is_sorted());
    for (seen, limit) in followed[..3].iter().zip(PAGES) {
        assert!(
            *seen == feed,
            "the reader of {limit} at a time saw another feed than there is in the end"
        );
    }
    let crowd: Vec<&StoredEvent> =
        feed.iter().filter(|event| event.stream.as_str().starts_with("crowd")).collect();
    assert!(
        followed[3].iter().eq(crowd),
        "the reader of some streams saw another feed than there is in the end"
    );
}

/// Reads page after page, without a pause, until this many events were seen.
async fn follow(
    store: PostgresStore,
    limit: usize,
    prefix: &str,
    total: usize,
) -> Vec<StoredEvent> {
    let (mut events, mut position) = (Vec::new(), Position::START);
    while events.len() < total {
        let query = FeedQuery::after(position).stream_prefix(prefix).limit(limit);
        let page = store.read_feed(query).await.unwrap();
        assert!(page.next >= position, "the feed goes back");
        events.extend(page.events);
        position = page.next;
    }
    events
}

async fn write(store: PostgresStore, plain: Arc<Plain>, name: String) {
    for nth in 0..COMMITS {
        match nth % 6 {
            0 => drop(committed(&store, append(&name, "alone")).await),
            1 => drop(committed(&store, append("crowd", "together")).await),
            2 => drop(committed(&store, long(&name)).await),
            3 => drop(committed(&store, many(&name)).await),
            4 => undone(&plain, &name).await,
            _ => through_the_door(&store, &name).await,
        }
    }
}

/// A commit for the general path.
fn long(name: &str) -> Commit {
    let count = RecordKey::new("count").unwrap();
    append(&format!("{name}-long"), "one")
        .append(&stream("crowd-too"), ExpectedVersion::Any, [event("two"), event("three")])
        .write(RecordWrite::add(&count, 1, Bounds::NONE))
        .with_id(CommitId::fresh())
}

/// An append of several events, for a batch of the fast path.
fn many(name: &str) -> Commit {
    let five = (0..5).map(|_| event("many"));
    Commit::new().append(&stream(&format!("{name}-many")), ExpectedVersion::Any, five)
}

/// Positions that are drawn and never used.
async fn undone(plain: &Plain, name: &str) {
    let sql = format!(
        "DO $$ BEGIN
            PERFORM tidelock.append_one('{name}-undone', -1, gen_random_uuid(), 'said', '1', '{{}}');
            RAISE EXCEPTION 'enough';
         END $$"
    );
    plain.try_run(&sql).await.expect_err("it is undone");
}

async fn through_the_door(store: &PostgresStore, name: &str) {
    let own = soon("a connection", store.begin()).await.unwrap();
    own.execute("SELECT pg_current_xact_id()", &[]).await.unwrap();
    accepted(soon("a commit", own.commit(append(&format!("{name}-user"), "own"))).await.unwrap());
}
