//! A committer that has its position and takes its time.

use tidelock_store::{ExpectedVersion, FeedQuery, Position, Store};

use crate::ground::{Ground, Plain, accepted, append, committed, event, feed_after, said, soon, stream};

/// Writes as the store does, behind the gate, and ends when it is told to.
struct Slow(Plain);

impl Slow {
    /// Has a position, and is not visible yet.
    async fn begin(ground: &Ground) -> Self {
        let plain = ground.connect().await;
        plain
            .run(
                "BEGIN;
                 INSERT INTO tidelock.streams (name, version) VALUES ('slow', 1);
                 SELECT FROM tidelock.gate FOR UPDATE;
                 INSERT INTO tidelock.events
                    SELECT base + 1, 'slow', 1, gen_random_uuid(), 'said', '\"slow\"', '{}', moment FROM tidelock.last()",
            )
            .await;
        Self(plain)
    }

    async fn commit(self) {
        self.0.run("COMMIT").await;
    }

    async fn roll_back(self) {
        self.0.run("ROLLBACK").await;
    }
}

/// Schedule 1. LOG-7.
#[tokio::test]
async fn what_has_the_lower_position_is_delivered_though_it_commits_late() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    let slow = Slow::begin(&ground).await;
    let fast = tokio::spawn(async move { committed(&writer, append("fast", "fast")).await });
    let plain = ground.connect().await;
    plain.until_blocked(1).await;

    let page = reader.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert!(page.events.is_empty() && page.at_end, "{page:?}");
    assert_eq!(page.next, Position::START);

    slow.commit().await;
    soon("the fast one", fast).await.unwrap();
    let events = feed_after(&reader, page.next).await;
    assert_eq!(said(&events), ["slow", "fast"]);
    assert!(events[0].position < events[1].position);
}

/// Schedule 2. LOG-7: the transaction that began first takes its position last.
#[tokio::test]
async fn an_older_transaction_that_takes_a_later_position_hides_nobody() {
    let ground = Ground::shared();
    let (older, reader) = (ground.open().await, ground.open().await);
    let plain = ground.connect().await;
    plain.run("CREATE TABLE tidelock.own (n int)").await;

    let own = older.begin().await.unwrap();
    own.execute(&format!("INSERT INTO {}.own VALUES (1)", ground.schema), &[]).await.unwrap();
    let slow = Slow::begin(&ground).await;
    let own = tokio::spawn(async move { own.commit(append("older", "older")).await.unwrap() });
    plain.until_blocked(1).await;
    assert!(feed_after(&reader, Position::START).await.is_empty());

    slow.commit().await;
    accepted(soon("the older one", own).await.unwrap());
    assert_eq!(said(&feed_after(&reader, Position::START).await), ["slow", "older"]);
}

/// Schedule 2, the other way round: a reader has passed the younger one before the older one has a position.
#[tokio::test]
async fn an_older_transaction_comes_after_what_a_reader_has_seen() {
    let ground = Ground::shared();
    let (older, reader) = (ground.open().await, ground.open().await);
    ground.connect().await.run("CREATE TABLE tidelock.own (n int)").await;
    let own = older.begin().await.unwrap();
    own.execute(&format!("INSERT INTO {}.own VALUES (1)", ground.schema), &[]).await.unwrap();

    committed(&reader, append("younger", "younger")).await;
    let seen = feed_after(&reader, Position::START).await;
    assert_eq!(said(&seen), ["younger"]);

    accepted(own.commit(append("older", "older")).await.unwrap());
    assert_eq!(said(&feed_after(&reader, seen[0].position).await), ["older"]);
}

/// Schedule 4. LOG-7.
#[tokio::test]
async fn nobody_waits_for_a_position_that_was_given_back() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    committed(&writer, append("before", "before")).await;
    let slow = Slow::begin(&ground).await;
    let after = tokio::spawn({
        let writer = writer.clone();
        async move { committed(&writer, append("after", "after")).await }
    });
    ground.connect().await.until_blocked(1).await;

    slow.roll_back().await;
    soon("the commit behind it", after).await.unwrap();
    let page = reader.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!(said(&page.events), ["before", "after"]);
    assert!(page.at_end, "there is nothing to wait for");
}

/// Schedule 4: the same when it is the store itself that gives positions back, because others were quicker.
#[tokio::test]
async fn a_batch_that_is_undone_leaves_nothing_to_wait_for() {
    let ground = Ground::shared();
    let (one, other) = (ground.open().await, ground.open().await);
    for _ in 0..20 {
        // The same event's id on two streams: the one that is undone has taken positions before.
        let contended = event("once");
        let to = |name: &str| {
            let commit = append(&format!("{name}-beside"), name);
            commit.append(&stream(name), ExpectedVersion::Any, [contended.clone()])
        };
        let (a, b) = tokio::join!(one.commit(to("a")), other.commit(to("b")));
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        committed(&one, append("beside", "beside")).await;
    }
    let positions: Vec<u64> =
        feed_after(&other, Position::START).await.iter().map(|event| event.position.get()).collect();
    let expected: Vec<u64> = (1..=positions.len() as u64).collect();
    assert_eq!(positions, expected, "a position was used up by what is not there");
}

/// Schedules 1 and 2: a role or database may have another isolation by default, in which a transaction goes on seeing what
/// there was when it began. Who waited at the gate must see what came through before.
#[tokio::test]
async fn positions_are_in_order_whatever_the_default_isolation_is() {
    let ground = Ground::shared();
    let (writer, reader) =
        (ground.open_where("default_transaction_isolation%3Dserializable").await, ground.open().await);
    let own = writer.begin().await.unwrap();
    own.query("SELECT 1", &[]).await.unwrap();
    let slow = Slow::begin(&ground).await;
    let own = tokio::spawn(async move { accepted(own.commit(append("own", "own")).await.unwrap()) });
    let fast = tokio::spawn(async move { committed(&writer, append("fast", "fast")).await });
    ground.connect().await.until_blocked(2).await;
    slow.commit().await;
    soon("the fast one", fast).await.unwrap();
    soon("the one through the door", own).await.unwrap();
    let events = feed_after(&reader, Position::START).await;
    assert_eq!((events.len(), said(&events[..1])), (3, vec!["slow".to_owned()]));
}
