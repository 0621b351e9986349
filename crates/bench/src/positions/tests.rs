//! The interleavings that tell the mechanisms apart, one statement at a time, on real connections.

use std::time::{Duration, Instant};

use tidelock_test_postgres::shared_url;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

use super::ground::Ground;
use super::mechanism::Mechanism;
use super::reader::Feed;
use crate::database::connect;

/// A ground in a database of its own, for tests run side by side.
async fn ground(mechanism: Mechanism) -> Ground {
    let shared = shared_url().unwrap();
    let name = format!("bench_{}", Uuid::now_v7().simple());
    let client = connect(&shared.parse().unwrap()).await.unwrap();
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (server, _) = shared.rsplit_once('/').unwrap();
    Ground::make(&format!("{server}/{name}"), mechanism).await.unwrap()
}

/// A client within a transaction that has its number.
async fn begun(ground: &Ground) -> Client {
    let client = ground.connect().await.unwrap();
    client.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    client
}

/// Appends one event to a stream; gives its position, or none if it has to be tried again.
async fn append(client: &Client, ground: &Ground, stream: &str) -> Result<Option<i64>, Error> {
    let (ids, texts) = (vec![Uuid::now_v7()], vec!["{}"]);
    let sql = ground.mechanism.sql().append;
    let rows = client.query(sql, &[&vec![stream], &ids, &texts, &texts, &texts]).await?;
    Ok(rows.first().map(|row| row.get(1)))
}

/// Waits until some connection waits for a lock of another.
async fn somebody_waits(ground: &Ground) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let client = ground.connect().await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < deadline, "nobody waits");
    }
}

/// How many of two events a reader sees, when the first to get a position is the last to commit.
async fn seen_beside_a_late_commit(ground: &Ground) -> usize {
    let mut feed = Feed::from_end(ground).await.unwrap();
    let (slow, quick) = (begun(ground).await, ground.connect().await.unwrap());
    let first = append(&slow, ground, "slow").await.unwrap().unwrap();
    let second = append(&quick, ground, "quick").await.unwrap().unwrap();
    assert!(first < second);
    feed.read().await.unwrap();
    slow.batch_execute("COMMIT").await.unwrap();
    read_up_to(second, &mut feed).await;
    feed.seen.at.len()
}

/// Writers in other databases hold some readers back too, but not for ever.
async fn read_up_to(position: i64, feed: &mut Feed) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !feed.seen.at.contains_key(&position) {
        feed.read().await.unwrap();
        assert!(Instant::now() < deadline, "position {position} is never seen");
    }
}

#[tokio::test]
async fn with_a_sequence_the_event_that_commits_late_is_skipped() {
    assert_eq!(seen_beside_a_late_commit(&ground(Mechanism::Sequence).await).await, 1);
}

#[tokio::test]
async fn behind_the_oldest_writer_the_event_that_commits_late_is_not_skipped() {
    for mechanism in [Mechanism::Xid, Mechanism::Ticket] {
        assert_eq!(seen_beside_a_late_commit(&ground(mechanism).await).await, 2, "{mechanism:?}");
    }
}

#[tokio::test]
async fn with_tickets_only_who_writes_to_the_log_holds_its_readers_back() {
    let ground = ground(Mechanism::Ticket).await;
    let mut feed = Feed::from_end(&ground).await.unwrap();
    let (other, quick) = (begun(&ground).await, ground.connect().await.unwrap());
    append(&quick, &ground, "quick").await.unwrap().unwrap();
    assert_eq!(feed.read().await.unwrap(), 1);
    other.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn an_older_transaction_leaves_a_stream_alone_that_a_younger_one_has_written_to() {
    let ground = ground(Mechanism::Xid).await;
    let (older, younger) = (begun(&ground).await, ground.connect().await.unwrap());
    let first = append(&younger, &ground, "stream").await.unwrap().unwrap();
    assert_eq!(append(&older, &ground, "stream").await.unwrap(), None);
    older.batch_execute("COMMIT").await.unwrap();
    let second = append(&older, &ground, "stream").await.unwrap().unwrap();
    assert!(first < second);
}

#[tokio::test]
async fn with_a_counter_or_a_lock_nobody_gets_a_position_before_all_lower_ones_are_there() {
    for mechanism in [Mechanism::Counter, Mechanism::Lock] {
        let ground = ground(mechanism).await;
        let (slow, quick) = (begun(&ground).await, ground.connect().await.unwrap());
        assert_eq!(append(&slow, &ground, "slow").await.unwrap(), Some(1));
        let (second, ()) = tokio::join!(append(&quick, &ground, "quick"), async {
            somebody_waits(&ground).await;
            slow.batch_execute("COMMIT").await.unwrap();
        });
        assert_eq!(second.unwrap(), Some(2), "{mechanism:?}");
    }
}

#[tokio::test]
async fn with_a_counter_or_a_lock_a_writer_that_gives_up_leaves_no_gap() {
    for mechanism in [Mechanism::Counter, Mechanism::Lock] {
        let ground = ground(mechanism).await;
        let client = begun(&ground).await;
        assert_eq!(append(&client, &ground, "stream").await.unwrap(), Some(1));
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(append(&client, &ground, "stream").await.unwrap(), Some(1), "{mechanism:?}");
    }
}
