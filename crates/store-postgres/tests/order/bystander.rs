//! Open transactions beside the feed: unrelated ones, and one that blocks it.

use tidelock_store::{FeedQuery, Position, Store};

use crate::ground::{Ground, accepted, append, committed, feed_after, said, soon};

/// Schedule 3. LOG-7. [`naive`](crate::naive) shows a reader that does stand still.
#[tokio::test]
async fn a_transaction_left_open_holds_no_reader_back() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    committed(&writer, append("theirs", "theirs")).await;
    let (looking, writing) = (ground.connect().await, ground.connect().await);
    looking
        .run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tidelock.events")
        .await;
    writing
        .run("BEGIN; CREATE TABLE tidelock.own (n int); INSERT INTO tidelock.own VALUES (1)")
        .await;
    writing.run("SELECT FROM tidelock.streams WHERE name = 'theirs' FOR UPDATE").await;
    let own = writer.begin().await.unwrap();
    own.execute("SELECT pg_current_xact_id()", &[]).await.unwrap();

    for text in ["one", "two", "three"] {
        committed(&writer, append(text, text)).await;
    }
    assert_eq!(
        said(&feed_after(&reader, Position::START).await),
        ["theirs", "one", "two", "three"]
    );

    accepted(soon("the open one", own.commit(append("four", "four"))).await.unwrap());
    assert_eq!(feed_after(&reader, Position::START).await.len(), 5);
}

/// Schedule 3: a session that has locked the log blocks appends, not reads, and the server's own
/// timeout ends it.
#[tokio::test]
async fn one_that_sits_on_the_log_is_ended_by_the_servers_own_timeout() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    committed(&writer, append("a", "before")).await;
    let sitting = ground.connect().await;
    sitting.run("BEGIN; LOCK TABLE tidelock.events IN SHARE MODE").await;
    let behind = tokio::spawn(async move { committed(&writer, append("a", "behind")).await });
    ground.connect().await.until_blocked(1).await;
    let page = soon("a read", reader.read_feed(FeedQuery::after(Position::START))).await.unwrap();
    assert_eq!(said(&page.events), ["before"]);

    sitting.run("SET idle_in_transaction_session_timeout = 1").await;
    soon("the commit behind it", behind).await.unwrap();
    assert_eq!(said(&feed_after(&reader, page.next).await), ["behind"]);
    sitting.try_run("COMMIT").await.expect_err("the server has ended it");
}
