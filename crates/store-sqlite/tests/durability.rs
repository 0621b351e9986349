//! Durability in one process: what is there after a reopen, and what happens to dropped calls.
//!
//! Schedules 11 and 12 in spirit: a future that is dropped at any moment leaves a commit that is
//! there completely or not at all, and a store that continues. Kills, failing disks and power
//! failures are covered by the `processes` and `faults` tests.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

#[path = "durability/backup.rs"]
mod backup;
#[path = "dice/mod.rs"]
mod dice;
#[path = "durability/leaving.rs"]
mod leaving;
#[path = "durability/restoring.rs"]
mod restoring;

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use dice::Dice;
use tempfile::TempDir;
use tidelock_store::{
    Adjustment, Commit, CommitId, CommitOutcome, ExpectedRevision, ExpectedVersion, FeedQuery,
    HeadQuery, ItemFilter, ItemQuery, ItemRef, LeaseRequest, LeaseToken, NewEvent, Position,
    QueueName, RawJson, RecordKey, RecordQuery, RecordWrite, RetryAdvice, Revision, Store,
    StoreError, StoreErrorKind, StoreExt, StreamName, StreamQuery, Topic, Version, Wake, When,
    WorkerName,
};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A folder with one file in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(self.path(), &SqliteOptions::default()).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("store.db-wal")
    }

    fn check_integrity(&self) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        let found: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
    }
}

fn stream(name: impl std::fmt::Display) -> StreamName {
    StreamName::new(name.to_string()).unwrap()
}

fn key(name: impl std::fmt::Display) -> RecordKey {
    RecordKey::new(name.to_string()).unwrap()
}

fn item() -> ItemRef {
    ItemRef::parse("mail", "letter").unwrap()
}

fn worker() -> WorkerName {
    WorkerName::new("worker").unwrap()
}

/// A commit with parts in two streams and a record, all with the same number.
fn deed(name: &str, number: u64) -> Commit {
    let event = || NewEvent::of("done", &number).unwrap();
    Commit::new()
        .with_id(CommitId::fresh())
        .append(&stream(format!("{name}-left")), ExpectedVersion::Any, [event()])
        .append(&stream(format!("{name}-right")), ExpectedVersion::Any, [event()])
        .write(RecordWrite::put(&key(name), ExpectedRevision::Any, RawJson::new(&number).unwrap()))
}

/// How many deeds of this name are there, each of them complete.
async fn deeds(store: &SqliteStore, name: &str) -> u64 {
    let left = store.read_whole_stream(&stream(format!("{name}-left"))).await.unwrap().len();
    let right = store.read_whole_stream(&stream(format!("{name}-right"))).await.unwrap().len();
    let written = store.get_one(&key(name)).await.unwrap().revision().map_or(0, Revision::get);
    assert_eq!((left, left as u64), (right, written), "half a deed of {name} is there");
    written
}

fn is_committed(outcome: &Result<CommitOutcome, StoreError>) -> bool {
    matches!(outcome, Ok(CommitOutcome::Committed(_)))
}

/// COMMIT-5, LOG-2, REC-2, LEASE-2.
#[tokio::test]
async fn everything_is_there_when_the_file_is_opened_again() {
    let place = Place::new();
    for round in 1..=6 {
        let store = place.open();
        assert_eq!(deeds(&store, "deed").await, (round - 1) * 2);
        for number in 1..=2 {
            assert!(is_committed(
                &store.commit(deed("deed", number).wake(Wake::at(item(), When::NOW))).await
            ));
        }
        let request = LeaseRequest::new(&item().queue, &worker(), Duration::from_secs(60), 1);
        let leased = store.lease(request).await.unwrap().leases;
        assert_eq!(
            leased.len(),
            usize::from(round == 1),
            "the first lease outlives the handle it was granted to"
        );
        if round % 2 == 0 {
            store.close().await.unwrap();
        }
    }
    let items = place.open().items(ItemQuery::new(ItemFilter::default())).await.unwrap().items;
    assert_eq!(items[0].holder.as_ref().map(|holder| holder.worker.clone()), Some(worker()));
    place.check_integrity();
}

#[tokio::test]
async fn closing_lets_go_of_the_file() {
    for _ in 0..20 {
        let place = Place::new();
        let store = place.open();
        assert!(is_committed(&store.commit(deed("deed", 1)).await));
        assert!(place.log().exists());
        store.close().await.unwrap();
        assert!(!place.log().exists(), "everything was moved from the log into the file");
        assert!(!place.path().with_extension("db-shm").exists());
        // A file that is not open can be moved away and back.
        let moved = place.folder.path().join("moved.db");
        fs::rename(place.path(), &moved).unwrap();
        let store = SqliteStore::open(&moved, &SqliteOptions::default()).unwrap();
        assert_eq!(deeds(&store, "deed").await, 1);
    }
}

#[tokio::test]
async fn every_call_after_closing_is_unavailable() {
    let place = Place::new();
    let store = place.open();
    let other_handle = store.clone();
    assert!(is_committed(&store.commit(deed("deed", 1)).await));
    store.close().await.unwrap();
    store.close().await.expect("closing twice is closing once");
    let token = LeaseToken { item: item(), fence: tidelock_store::Fence::FIRST };
    let (queue, second): (QueueName, _) = (item().queue, Duration::from_secs(1));
    let refusals = [
        other_handle.now().await.err(),
        store.commit(deed("deed", 2)).await.err(),
        other_handle.commit(deed("deed", 2)).await.err(),
        store.read_stream(StreamQuery::forward(&stream("deed-left"))).await.err(),
        store.read_feed(FeedQuery::after(Position::START)).await.err(),
        store.heads(HeadQuery::prefix("")).await.err(),
        store.get(&[key("deed")]).await.err(),
        store.scan(RecordQuery::prefix("")).await.err(),
        store.lease(LeaseRequest::new(&queue, &worker(), second, 1)).await.err(),
        store.renew(&[token], second).await.err(),
        store.items(ItemQuery::new(ItemFilter::default())).await.err(),
        store.adjust(ItemFilter::default(), Adjustment::Unblock).await.err(),
    ];
    for (at, refused) in refusals.into_iter().enumerate() {
        let refused = refused.unwrap_or_else(|| panic!("call {at} was answered"));
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Never),
            "{refused}"
        );
    }
    assert!(timeout(Duration::from_millis(50), store.signal(Topic::Log).wait()).await.is_err());
    assert_eq!(deeds(&place.open(), "deed").await, 1);
}

/// What was queued before the close is written; later calls are refused; there is nothing in
/// between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_under_load_answers_every_caller_truly() {
    for _ in 0..10 {
        let place = Place::new();
        let store = place.open();
        let mut callers = JoinSet::new();
        for n in 0..32 {
            let store = store.clone();
            callers.spawn(async move {
                let name = format!("caller-{n}");
                let mut acknowledged = 0;
                while is_committed(&store.commit(deed(&name, acknowledged + 1)).await) {
                    acknowledged += 1;
                }
                (name, acknowledged)
            });
        }
        // Once the first commit is there, every caller is running.
        while store.get_one(&key("caller-0")).await.unwrap().live().is_none() {}
        store.close().await.unwrap();
        let store = place.open();
        let mut total = 0;
        for (name, acknowledged) in callers.join_all().await {
            assert_eq!(deeds(&store, &name).await, acknowledged, "{name}");
            total += acknowledged;
        }
        assert!(total > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_commit_is_there_whole_or_not_at_all() {
    const ROUNDS: u64 = 300;
    let mut dice = Dice::for_test("a_dropped_commit_is_there_whole_or_not_at_all");
    let place = Place::new();
    let store = place.open();
    let background = load(&store, 8);
    let (mut there, mut finished) = (0, 0);
    for round in 0..ROUNDS {
        let name = format!("deed-{round}");
        let commit = deed(&name, 1);
        let sent = commit.clone();
        match dice.below(4) {
            0 => {
                let mut future = pin!(store.commit(sent));
                let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            1 => drop(timeout(Duration::ZERO, store.commit(sent)).await),
            2 => drop(timeout(Duration::from_micros(dice.below(3_000)), store.commit(sent)).await),
            _ => {
                let store = store.clone();
                let task = tokio::spawn(async move { store.commit(sent).await });
                while !dice.one_in(25) {
                    std::thread::yield_now();
                }
                task.abort();
                finished += u64::from(task.await.is_ok());
            }
        }
        // Everything queued before this is done when this is done.
        assert!(is_committed(&store.commit(deed("marker", round)).await));
        let found = deeds(&store, &name).await;
        there += found;
        // The id tells its outcome, and makes up for it if nothing happened.
        assert!(is_committed(&store.commit(commit).await));
        assert_eq!(deeds(&store, &name).await, 1, "it was {found} before it was sent again");
    }
    assert!(background.stop().await > 100, "there was hardly any load");
    assert_eq!(deeds(&store, "marker").await, ROUNDS);
    println!("{there} of {ROUNDS} were there, {finished} of them finished in time");
    assert!(
        there > 0 && there < ROUNDS,
        "all of them had the same fate: {there} of {ROUNDS} were there"
    );
    drop(store);
    place.check_integrity();
}

/// Tasks that commit until they are stopped.
struct Load {
    stop: tokio::sync::watch::Sender<bool>,
    tasks: JoinSet<u64>,
}

fn load(store: &SqliteStore, tasks: u64) -> Load {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let commit_often = |n| {
        let (store, stopped) = (store.clone(), stopped.clone());
        async move {
            let (name, mut number) = (format!("load-{n}"), 0);
            while !*stopped.borrow() {
                number += 1;
                assert!(is_committed(&store.commit(deed(&name, number)).await));
            }
            assert_eq!(deeds(&store, &name).await, number);
            number
        }
    };
    Load { stop, tasks: (0..tasks).map(commit_often).collect() }
}

impl Load {
    async fn stop(self) -> u64 {
        self.stop.send_replace(true);
        self.tasks.join_all().await.into_iter().sum()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_conflict_fails_none_of_its_neighbours() {
    const CALLERS: u64 = 64;
    let place = Place::new();
    let store = place.open();
    assert!(is_committed(&store.commit(deed("taken", 1)).await));
    for round in 0..10 {
        let barrier = std::sync::Arc::new(Barrier::new(CALLERS as usize));
        let mut callers = JoinSet::new();
        for n in 0..CALLERS {
            let (store, barrier) = (store.clone(), barrier.clone());
            callers.spawn(async move {
                let commit = match n {
                    // A conflict, and an invalid call: an event id that was used elsewhere.
                    13 => deed("neighbour-13", round)
                        .guard_stream(&stream("taken-left"), ExpectedVersion::NoStream),
                    14 => stolen_id(&store).await,
                    _ => deed(&format!("neighbour-{n}"), round),
                };
                barrier.wait().await;
                (n, store.commit(commit).await)
            });
        }
        for (n, answer) in callers.join_all().await {
            match n {
                13 => assert!(matches!(answer, Ok(CommitOutcome::Conflict(_))), "{answer:?}"),
                14 => assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::IdempotencyMismatch),
                _ => assert!(is_committed(&answer), "caller {n}: {answer:?}"),
            }
        }
        for n in 0..CALLERS {
            let expected = if n == 13 || n == 14 { 0 } else { round + 1 };
            assert_eq!(deeds(&store, &format!("neighbour-{n}")).await, expected, "caller {n}");
        }
    }
}

async fn stolen_id(store: &SqliteStore) -> Commit {
    let taken = store.read_whole_stream(&stream("taken-left")).await.unwrap();
    let event = NewEvent::of("stolen", &0).unwrap().with_id(taken[0].id);
    deed("neighbour-14", 0).append(&stream("elsewhere"), ExpectedVersion::Any, [event])
}

/// Readers come and go all the time: a log restarts only when no reader uses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_does_not_grow_without_bound() {
    const TASKS: u64 = 16;
    const COMMITS: u64 = 80;
    const BYTES: usize = 50_000;
    const LIMIT: u64 = 40 << 20;
    let place = Place::new();
    let store = place.open();
    let mut tasks = JoinSet::new();
    for n in 0..TASKS {
        let (store, log) = (store.clone(), place.log());
        tasks.spawn(async move {
            let (stream, payload) = (stream(format!("task-{n}")), "x".repeat(BYTES));
            let mut longest = 0;
            for number in 1..=COMMITS {
                let event = NewEvent::of("filled", &payload).unwrap();
                let commit = Commit::new().append(&stream, ExpectedVersion::Any, [event]);
                assert!(is_committed(&store.commit(commit).await));
                let newest = StreamQuery::backward(&stream).limit(1);
                let newest = store.read_stream(newest).await.unwrap().events;
                assert_eq!(newest[0].version, Version::new(number).unwrap());
                longest = longest.max(length(&log));
            }
            longest
        });
    }
    let longest = tasks.join_all().await.into_iter().max().unwrap();
    let written = TASKS * COMMITS * BYTES as u64;
    println!("{} MiB were written, the log grew to {} MiB at most", written >> 20, longest >> 20);
    assert!(written > LIMIT + (LIMIT >> 1));
    assert!(longest < LIMIT, "the log grew to {longest} bytes");
    store.close().await.unwrap();
    assert!(length(&place.path()) > written, "all of it is in the file");
    place.check_integrity();
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}
