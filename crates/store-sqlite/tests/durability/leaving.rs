//! Retention: what is past it leaves the file, without a commit, under load, and with its space.
//!
//! Schedule 106 in small: rows, and bytes, are back near an empty store.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    AfterTrim, Append, Commit, CommitId, ExpectedRevision, ExpectedVersion, FeedQuery, ItemRef,
    LeaseRequest, ManualClock, NewEvent, Position, RawJson, RecordWrite, Settlement, Store,
    Version, Wake, When,
};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::time::timeout;

use crate::{Place, is_committed, key, stream, worker};

const HOUR: Duration = Duration::from_secs(3600);

fn options(clock: &ManualClock) -> SqliteOptions {
    SqliteOptions { clock: Arc::new(clock.clone()), ..SqliteOptions::default() }
}

fn value(bytes: usize) -> RawJson {
    RawJson::new(&"x".repeat(bytes)).unwrap()
}

/// One of everything that expires, done when this returns.
async fn do_and_be_done(store: &SqliteStore, name: &str) {
    let soon = When::In(Duration::from_secs(1));
    let item = ItemRef::parse("work", name).unwrap();
    let put = |key| RecordWrite::put(&key, ExpectedRevision::Any, value(1));
    let begin = Commit::new()
        .with_id(CommitId::fresh())
        .dedup_window(Duration::from_secs(1))
        .append(&stream(name), ExpectedVersion::NoStream, [NewEvent::of("done", &0).unwrap()])
        .write(put(key(format!("deleted-{name}"))))
        .write(put(key(format!("expiring-{name}"))).expiring(soon))
        .wake(Wake::at(item.clone(), When::NOW));
    assert!(is_committed(&store.commit(begin).await));
    let request = LeaseRequest::new(&item.queue, &worker(), Duration::from_secs(60), 1);
    let leased = store.lease(request).await.unwrap().leases;
    let read =
        store.read_stream(tidelock_store::StreamQuery::forward(&stream(name))).await.unwrap();
    let last = read.events.last().unwrap().version;
    let end = Commit::new()
        .with_append(Append::closing(&stream(name), ExpectedVersion::Exact(last)))
        .trim(&stream(name), last, AfterTrim::Forget(soon))
        .write(RecordWrite::delete(&key(format!("deleted-{name}")), ExpectedRevision::Any))
        .settle(Settlement::finish(leased[0].token(), leased[0].mark, soon));
    assert!(is_committed(&store.commit(end).await));
}

/// The number of rows of everything that expires.
fn rows(place: &Place) -> i64 {
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    let tables = ["streams", "events", "records", "items", "commits"];
    let count = |table| {
        let sql = format!("SELECT count(*) FROM tidelock_{table}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    tables.into_iter().map(count).sum()
}

#[tokio::test]
async fn what_is_past_its_retention_leaves_although_nothing_is_written() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let interval = SqliteOptions { sweep_interval: Duration::from_millis(1), ..options(&clock) };
    let store = SqliteStore::open(place.path(), &interval).unwrap();
    for number in 0..200 {
        do_and_be_done(&store, &format!("run/{number}")).await;
    }
    assert!(rows(&place) >= 200 * 4);
    clock.advance(HOUR * 2);
    let gone = async {
        while rows(&place) > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), gone).await.expect("all of it leaves without a commit");
}

/// Makes one row that expires, of this kind and no other.
async fn leave(store: &SqliteStore, kind: &str) {
    let soon = When::In(Duration::from_secs(1));
    let put = || RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1));
    let delete = || RecordWrite::delete(&key("k"), ExpectedRevision::Any);
    let append = || {
        Commit::new().append(
            &stream("s"),
            ExpectedVersion::Any,
            [NewEvent::of("done", &0).unwrap()],
        )
    };
    let close = || Append::closing(&stream("s"), ExpectedVersion::Any);
    let nothing = || Commit::new().guard_record(&key("k"), ExpectedRevision::Absent);
    let commits = match kind {
        "deleted record" => vec![Commit::new().write(put()), Commit::new().write(delete())],
        "expired record" => vec![Commit::new().write(put().expiring(soon))],
        "commit id" => {
            vec![nothing().with_id(CommitId::fresh()).dedup_window(Duration::from_secs(1))]
        }
        "stream" => {
            let trim = Commit::new().with_append(close());
            vec![append(), trim.trim(&stream("s"), Version::FIRST, AfterTrim::Forget(soon))]
        }
        _ => vec![Commit::new().wake(Wake::at(crate::item(), When::NOW))],
    };
    for commit in commits {
        assert!(is_committed(&store.commit(commit).await));
    }
    let request = LeaseRequest::new(&crate::item().queue, &worker(), Duration::from_secs(60), 1);
    for lease in store.lease(request).await.unwrap().leases {
        let finish = Settlement::finish(lease.token(), lease.mark, soon);
        assert!(is_committed(&store.commit(Commit::new().settle(finish)).await));
    }
}

/// KEEP-1, KEEP-2, KEEP-3, KEEP-4. Each kind is found by itself: nothing else is due.
#[tokio::test]
async fn each_kind_leaves_although_nothing_is_written_and_nothing_else_is_due() {
    for kind in ["deleted record", "expired record", "item", "stream", "commit id"] {
        let (place, clock) = (Place::new(), ManualClock::default());
        let interval =
            SqliteOptions { sweep_interval: Duration::from_millis(1), ..options(&clock) };
        let store = SqliteStore::open(place.path(), &interval).unwrap();
        leave(&store, kind).await;
        assert_eq!(rows(&place), 1, "{kind}");
        clock.advance(HOUR * 2);
        let gone = async {
            while rows(&place) > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), gone)
            .await
            .unwrap_or_else(|_| panic!("the {kind} is still there"));
    }
}

/// One write begins it, and the writer thread ends it as soon as it has nothing else to do.
#[tokio::test]
async fn what_one_write_could_not_sweep_leaves_without_another() {
    let (place, clock) = (Place::new(), ManualClock::default());
    drop(SqliteStore::open(place.path(), &options(&clock)).unwrap());
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
                INSERT INTO tidelock_records SELECT 'k-' || i, 1, '1', 1 FROM n";
    connection.execute(many, []).unwrap();
    let alone = SqliteOptions {
        sweep_interval: Duration::from_secs(24 * 3600),
        callers_may_write: false,
        ..options(&clock)
    };
    let store = SqliteStore::open(place.path(), &alone).unwrap();
    assert!(is_committed(
        &store.commit(Commit::new().wake(Wake::at(crate::item(), When::NOW))).await
    ));
    let gone = async {
        while rows(&place) > 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), gone).await.expect("the rest leaves without a commit");
}

#[tokio::test]
async fn sweeping_keeps_up_with_what_is_written() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let store = SqliteStore::open(place.path(), &options(&clock)).unwrap();
    let mut most = 0;
    for number in 0..600 {
        do_and_be_done(&store, &format!("run/{number}")).await;
        clock.advance(HOUR / 10);
        most = most.max(rows(&place));
    }
    // Finished rows stay for an hour, which is ten rounds, and each round leaves at most five rows.
    assert!(most <= 11 * 5, "there were {most} rows at once");
    assert!(most >= 10, "there were only {most} rows at once");
}

#[tokio::test]
async fn the_file_becomes_shorter_when_what_was_in_it_has_left() {
    const BYTES: usize = 8_000;
    let (place, clock) = (Place::new(), ManualClock::default());
    let store = SqliteStore::open(place.path(), &options(&clock)).unwrap();
    for round in 0..30 {
        let put = |number| {
            let key = key(format!("{round}-{number}"));
            RecordWrite::put(&key, ExpectedRevision::Absent, value(BYTES)).expiring(When::In(HOUR))
        };
        let commit = (0..100).fold(Commit::new(), |commit, number| commit.write(put(number)));
        assert!(is_committed(&store.commit(commit).await));
    }
    store.close().await.unwrap();
    let full = fs::metadata(place.path()).unwrap().len();
    assert!(full > (BYTES * 3_000) as u64);
    clock.advance(HOUR * 3);
    let store = SqliteStore::open(place.path(), &options(&clock)).unwrap();
    store.sweep().await.unwrap();
    assert_eq!(rows(&place), 0);
    store.close().await.unwrap();
    // At most 4 MiB are kept free, and there is hardly anything else.
    let empty = fs::metadata(place.path()).unwrap().len();
    assert!(empty < 5 << 20, "{empty} bytes of {full} are left");
    place.check_integrity();
}

/// The row of the new stream gets the number that the forgotten one had.
#[tokio::test]
async fn a_reader_does_not_take_a_new_stream_for_one_that_was_forgotten() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let store =
        SqliteStore::open(place.path(), &SqliteOptions { readers: 1, ..options(&clock) }).unwrap();
    let append = |name: &str| {
        Commit::new().append(
            &stream(name),
            ExpectedVersion::NoStream,
            [NewEvent::of("noted", &0).unwrap()],
        )
    };
    assert!(is_committed(&store.commit(append("old")).await));
    let seen = store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!(seen.events[0].stream, stream("old"));
    let close = Append::closing(&stream("old"), ExpectedVersion::Any);
    let forget = AfterTrim::Forget(When::In(Duration::from_secs(1)));
    let end = Commit::new().with_append(close).trim(&stream("old"), Version::FIRST, forget);
    assert!(is_committed(&store.commit(end).await));
    clock.advance(HOUR);
    store.sweep().await.unwrap();
    assert!(is_committed(&store.commit(append("new")).await));
    let seen = store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!(seen.events[0].stream, stream("new"));
}

/// KEEP-1. The value is removed as soon as the record has expired, and not with the tombstone.
#[tokio::test]
async fn the_value_of_an_expired_record_leaves_before_its_tombstone() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let store = SqliteStore::open(place.path(), &options(&clock)).unwrap();
    let put = RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1)).expiring(When::In(HOUR));
    assert!(is_committed(&store.commit(Commit::new().write(put)).await));
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    let values = || {
        let sql = "SELECT count(*), count(value) FROM tidelock_records";
        connection
            .query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
            .unwrap()
    };
    assert_eq!(values(), (1, 1));
    clock.advance(HOUR);
    store.sweep().await.unwrap();
    assert_eq!(values(), (1, 0), "the tombstone");
    clock.advance(HOUR);
    store.sweep().await.unwrap();
    assert_eq!(values(), (0, 0));
}
