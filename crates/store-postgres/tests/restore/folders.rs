//! Copies of a server's data directory.

use std::fs;
use std::time::Instant;

use tidelock_store::{Commit, FeedQuery, FeedStart, Store, StoreExt};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::{Server, Stop};

use crate::careful::{LONG, commit, note, read_after, wake_and_lease};
use crate::given::Given;
use crate::ground::PATIENCE;

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_recovered_gives_nothing_out_again() {
    let original = Server::start().unwrap();
    let kept = Given::before_the_copy(&original.url()).await;
    let backup = backup(&original);
    let lost = Given::after_the_copy(&original.url()).await;

    let data = backup.data_folder();
    fs::rename(data.join("standby.signal"), data.join("recovery.signal")).unwrap();
    start_alone(&backup);
    Given::by_the_copy(&backup.url(), &kept, &[lost]).await;
}

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5. The server believes to be the
/// original.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_put_back_as_it_was_gives_nothing_out_again() {
    let original = Server::start().unwrap();
    let kept = Given::before_the_copy(&original.url()).await;
    let backup = backup(&original);
    let lost = Given::after_the_copy(&original.url()).await;

    fs::remove_file(backup.data_folder().join("standby.signal")).unwrap();
    start_alone(&backup);
    Given::by_the_copy(&backup.url(), &kept, &[lost]).await;
}

/// COMMIT-5, LOG-7 and LEASE-5, control: the effects of the tests above do not appear where nothing
/// was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_only_started_again_has_lost_nothing() {
    let server = Server::start().unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let before = note(&store, "before").await;
    let held = wake_and_lease(&store, "item", LONG).await;

    server.restart(Stop::Immediate).unwrap();
    let after = note(&store, "after").await;
    let read = read_after(&store, before).await.unwrap();
    assert_eq!(read.iter().map(|event| event.position).collect::<Vec<_>>(), [after]);
    commit(&store, Commit::new().settle(held.ack())).await;
}

/// Schedule 104; LOG-11 and LOG-12: the end of the feed, and the events before it, across the gap
/// between two epochs.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_feed_is_right_on_a_server_that_was_started_again() {
    let server = Server::start().unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let before = note(&store, "before").await;

    for _ in 0..2 {
        store.close().await.unwrap();
        server.restart(Stop::Fast).unwrap();
        let store = PostgresStore::open(&server.url()).await.unwrap();
        assert_eq!(store.feed_end().await.unwrap(), before);
        assert!(read_after(&store, before).await.unwrap().is_empty());
    }
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let after = note(&store, "after").await;
    assert_eq!(store.feed_end().await.unwrap(), after);
    let last = |count| FeedQuery::from(FeedStart::Last(count));
    for (count, expected) in
        [(0, &[][..]), (1, &[after]), (2, &[before, after]), (3, &[before, after])]
    {
        let page = store.read_feed(last(count)).await.unwrap();
        let read: Vec<_> = page.events.iter().map(|event| event.position).collect();
        assert_eq!((read.as_slice(), page.next), (expected, after));
    }
}

/// A copy of the server as it is now, which is not running.
fn backup(original: &Server) -> Server {
    let backup = original.standby("backup").unwrap();
    // It recovers from its own log, and follows no primary.
    backup.run_sql("postgres", "ALTER SYSTEM SET restore_command = 'false'").unwrap();
    backup.run_sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''").unwrap();
    backup.stop(Stop::Fast).unwrap();
    backup
}

fn start_alone(server: &Server) {
    server.start_again().unwrap();
    let begun = Instant::now();
    while server.run_sql("postgres", "SELECT pg_is_in_recovery()").unwrap() == "t" {
        assert!(begun.elapsed() < PATIENCE, "the server goes on recovering");
    }
}
