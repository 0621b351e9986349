//! The end of the feed, while commits are in flight and when an epoch has begun.

use tidelock_store::{
    AfterTrim, Append, Commit, ExpectedVersion, FeedQuery, FeedStart, Position, Store,
    StoreErrorKind, StoreExt, Version,
};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{Ground, append, committed, feed_after, said, stream};
use crate::late::Slow;

/// Makes the next handle find the database moved, so that it begins an epoch. Earlier handles
/// become unusable.
async fn move_away(ground: &Ground) -> PostgresStore {
    let sql = "UPDATE tidelock.epochs SET home = 'elsewhere' WHERE epoch = (SELECT epoch FROM tidelock.meta)";
    ground.connect().await.run(sql).await;
    ground.open().await
}

async fn note(store: &PostgresStore, text: &str) -> Position {
    committed(store, append(text, text)).await.appends[0].positions.unwrap().0
}

/// LOG-11: the end is before a commit in flight, and stays there until that has ended.
#[tokio::test]
async fn the_end_is_before_a_commit_that_is_in_flight() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    let before = note(&writer, "before").await;
    let slow = Slow::begin(&ground).await;
    let fast = note(&writer, "fast").await;

    let end = reader.feed_end().await.unwrap();
    assert_eq!(end, before);
    slow.commit().await;
    assert_eq!(said(&feed_after(&reader, end).await), ["slow", "fast"]);
    assert_eq!(reader.feed_end().await.unwrap(), fast);
}

/// LOG-11: the same when everything before was trimmed, and the trimmed events came after.
#[tokio::test]
async fn the_end_is_before_a_commit_in_flight_though_later_events_were_trimmed() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    let slow = Slow::begin(&ground).await;
    note(&writer, "fast").await;
    let one = Version::new(1).unwrap();
    let closing = Append::closing(&stream("fast"), ExpectedVersion::Exact(one));
    committed(&writer, Commit::new().with_append(closing)).await;
    committed(&writer, Commit::new().trim(&stream("fast"), one, AfterTrim::StayClosed)).await;

    let end = reader.feed_end().await.unwrap();
    slow.commit().await;
    assert_eq!(said(&feed_after(&reader, end).await), ["slow"]);
}

/// LOG-11: positions that were drawn and never used are not the end: after a restart they would
/// count as lost.
#[tokio::test]
async fn an_end_can_be_read_on_from_in_every_later_epoch() {
    let ground = Ground::shared();
    let store = ground.open().await;
    let mut ends = vec![store.feed_end().await.unwrap()];
    note(&store, "first").await;
    for epoch in ["second", "third", "fourth"] {
        Slow::begin(&ground).await.roll_back().await;
        ends.push(ground.open().await.feed_end().await.unwrap());
        let store = move_away(&ground).await;
        ends.push(store.feed_end().await.unwrap());
        // The third has no event.
        if epoch != "third" {
            note(&store, epoch).await;
        }
        for end in &ends {
            feed_after(&store, *end).await;
        }
    }
    let store = ground.open().await;
    let texts: Vec<_> =
        ends.iter().map(|end| async { said(&feed_after(&store, *end).await) }).collect();
    let counts: Vec<_> = futures_util::future::join_all(texts).await.iter().map(Vec::len).collect();
    assert_eq!(counts, [3, 2, 2, 1, 1, 1, 1], "what was appended after each end was asked for");
}

/// LOG-7: a filtered reader that meets a commit in flight at the beginning of an epoch continues.
#[tokio::test]
async fn a_filter_goes_on_past_what_is_in_flight_when_an_epoch_begins() {
    let ground = Ground::shared();
    note(&ground.open().await, "before").await;
    let store = move_away(&ground).await;
    let slow = Slow::begin(&ground).await;
    note(&store, "fast").await;
    let query = |after| FeedQuery::after(after).stream_prefix("fast");
    let held = store.read_feed(query(Position::START)).await.unwrap();
    assert!(held.events.is_empty() && held.at_end, "{held:?}");

    assert_eq!(store.read_feed(query(held.next)).await.unwrap().next, held.next);
    slow.commit().await;
    assert_eq!(said(&store.read_feed(query(held.next)).await.unwrap().events), ["fast"]);
}

/// LOG-7 and LOG-10: the first event of an epoch is found by its position, and a position in the
/// gap before it is refused.
#[tokio::test]
async fn the_first_event_of_an_epoch_is_found_by_its_position() {
    let ground = Ground::shared();
    let before = note(&ground.open().await, "before").await;
    let store = move_away(&ground).await;
    let first = note(&store, "first").await;
    let just_before = Position::new(first.get() - 1).unwrap();
    assert_eq!(said(&feed_after(&store, just_before).await), ["first"]);
    let query = FeedQuery::from(FeedStart::Before(first, 1));
    assert_eq!(said(&store.read_feed(query).await.unwrap().events), ["first"]);

    let gap = Position::new(first.get() - 2).unwrap();
    for from in [FeedStart::After(gap), FeedStart::Before(gap, 1), FeedStart::Before(gap, 0)] {
        let refused = store.read_feed(FeedQuery::from(from)).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Rewound, "{from:?}");
        assert!(refused.context().contains(&format!("the last one is {before}")), "{refused}");
    }
}
