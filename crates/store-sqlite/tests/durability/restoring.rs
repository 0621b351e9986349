//! Schedules 77 and 105: a file is restored from a backup, or continues in two places. No position,
//! fence or revision that was handed out since is handed out again, and a reader that is ahead gets
//! an error (LOG-7, LOG-10, REC-2, LEASE-2).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidelock_store::{
    Commit, ExpectedRevision, ExpectedVersion, FeedQuery, ItemRef, LeaseRequest, NewEvent,
    Position, RawJson, RecordWrite, Settlement, Store, StoreErrorKind, StoreExt, Wake, When,
};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};

use crate::{Place, key, stream, worker};

/// Numbers that were handed out: the fence of an item, the revisions of two records, and a
/// position.
#[derive(Debug, Clone, Copy)]
struct Handed {
    fence: u64,
    lock: u64,
    claim: u64,
    position: u64,
}

impl Handed {
    fn all(self) -> [u64; 4] {
        [self.fence, self.lock, self.claim, self.position]
    }

    /// Each of them is above all of those.
    fn is_above(self, lost: &[Handed]) -> bool {
        let highest = lost.iter().flat_map(|lost| lost.all()).max().unwrap();
        self.all().into_iter().all(|number| number > highest)
    }
}

/// Makes the store hand out one of each. The claim is deleted again each time.
async fn hand_out(store: &SqliteStore) -> Handed {
    let item = ItemRef::parse("work", "item").unwrap();
    let put = |name| RecordWrite::put(&key(name), ExpectedRevision::Any, RawJson::new(&1).unwrap());
    let commit = Commit::new()
        .append(&stream("log"), ExpectedVersion::Any, [NewEvent::of("noted", &0).unwrap()])
        .write(put("lock"))
        .write(put("claim"))
        .wake(Wake::at(item.clone(), When::NOW));
    let done = store.commit(commit).await.unwrap().committed().unwrap();
    let release = Commit::new().write(RecordWrite::delete(&key("claim"), ExpectedRevision::Any));
    store.commit(release).await.unwrap().committed().unwrap();
    let request = LeaseRequest::new(&item.queue, &worker(), Duration::from_secs(60), 1);
    let lease = store.lease(request).await.unwrap().leases.remove(0);
    store
        .commit(Commit::new().settle(Settlement::release(lease.token())))
        .await
        .unwrap()
        .committed()
        .unwrap();
    Handed {
        fence: lease.fence.get(),
        lock: done.writes[0].revision.unwrap().get(),
        claim: done.writes[1].revision.unwrap().get(),
        position: done.appends[0].positions.unwrap().1.get(),
    }
}

async fn hand_out_often(store: &SqliteStore, times: usize) -> Vec<Handed> {
    let mut handed = Vec::new();
    for _ in 0..times {
        handed.push(hand_out(store).await);
    }
    handed
}

/// A file with a history, a copy of it, and what the file handed out since.
struct Loss {
    place: Place,
    copy: PathBuf,
    lost: Vec<Handed>,
}

impl Loss {
    async fn suffered() -> Self {
        let place = Place::new();
        let store = place.open();
        hand_out_often(&store, 3).await;
        store.close().await.unwrap();
        let copy = place.folder.path().join("copy.db");
        fs::copy(place.path(), &copy).unwrap();
        let store = place.open();
        let lost = hand_out_often(&store, 20).await;
        store.close().await.unwrap();
        Self { place, copy, lost }
    }

    fn last_position(&self) -> Position {
        Position::new(self.lost.last().unwrap().position).unwrap()
    }

    /// A reader of the lost future gets an error, now and when there are new events.
    async fn is_noticed_by_readers_of(&self, store: &SqliteStore) {
        for handed in &self.lost {
            let position = Position::new(handed.position).unwrap();
            let refused = store.read_feed(FeedQuery::after(position)).await.unwrap_err();
            assert_eq!(refused.kind(), StoreErrorKind::Rewound, "{refused}");
            assert!(refused.to_string().contains("the last one is 3"), "{refused}");
        }
    }
}

fn open(path: &Path, restored: bool) -> SqliteStore {
    SqliteStore::open(path, &SqliteOptions { restored, ..SqliteOptions::default() }).unwrap()
}

fn epochs(path: &Path) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("SELECT count(*) FROM tidelock_epochs", [], |row| row.get(0)).unwrap()
}

/// Continues with a restored file, and checks everything that it hands out.
async fn goes_on_above(loss: &Loss, store: SqliteStore, path: &Path) {
    loss.is_noticed_by_readers_of(&store).await;
    for handed in hand_out_often(&store, 30).await {
        assert!(handed.is_above(&loss.lost), "{handed:?} came after {:?}", loss.lost.last());
    }
    loss.is_noticed_by_readers_of(&store).await;
    let kept = store.read_feed(FeedQuery::after(Position::new(3).unwrap())).await.unwrap();
    assert_eq!(kept.events.len(), 30, "a reader that had come no further than the backup goes on");
    let last = kept.next;
    store.close().await.unwrap();

    // Opening it again is no restore.
    let store = open(path, false);
    assert_eq!(hand_out(&store).await.position, last.get() + 1);
    loss.is_noticed_by_readers_of(&store).await;
    assert_eq!(store.read_whole_stream(&stream("log")).await.unwrap().len(), 3 + 30 + 1);
    store.close().await.unwrap();
    assert_eq!(epochs(path), 2);
}

#[tokio::test]
async fn a_copy_that_was_put_in_the_files_place_hands_out_nothing_again() {
    let loss = Loss::suffered().await;
    // Both are there for a moment, so they are different files on every file system.
    fs::rename(&loss.copy, loss.place.path()).unwrap();
    goes_on_above(&loss, loss.place.open(), &loss.place.path()).await;
}

#[tokio::test]
async fn a_copy_that_was_written_over_the_file_hands_out_nothing_again_when_that_is_said() {
    let loss = Loss::suffered().await;
    fs::write(loss.place.path(), fs::read(&loss.copy).unwrap()).unwrap();
    goes_on_above(&loss, open(&loss.place.path(), true), &loss.place.path()).await;
}

/// Schedule 105: the original is still there, and continues too.
#[tokio::test]
async fn two_copies_that_both_go_on_hand_out_different_numbers() {
    let loss = Loss::suffered().await;
    let (original, copy) = (loss.place.open(), open(&loss.copy, false));
    let (mut of_original, mut of_copy) = (loss.lost.clone(), Vec::new());
    for _ in 0..10 {
        of_original.push(hand_out(&original).await);
        of_copy.push(hand_out(&copy).await);
    }
    assert!(of_copy.iter().all(|handed| handed.is_above(&of_original)));
    let lost = loss.last_position();
    assert_eq!(
        copy.read_feed(FeedQuery::after(lost)).await.unwrap_err().kind(),
        StoreErrorKind::Rewound
    );
    assert_eq!(original.read_feed(FeedQuery::after(lost)).await.unwrap().events.len(), 10);
}

#[tokio::test]
async fn a_file_that_was_restored_twice_hands_out_nothing_again() {
    let loss = Loss::suffered().await;
    let mut lost = loss.lost.clone();
    for _ in 0..3 {
        fs::write(loss.place.path(), fs::read(&loss.copy).unwrap()).unwrap();
        let store = open(&loss.place.path(), true);
        let handed = hand_out_often(&store, 5).await;
        store.close().await.unwrap();
        assert!(handed.iter().all(|handed| handed.is_above(&lost)));
        lost.extend(handed);
    }
}

#[tokio::test]
async fn concurrent_opens_of_a_copy_begin_one_epoch() {
    let loss = Loss::suffered().await;
    let stores: Vec<_> = (0..4).map(|_| open(&loss.copy, false)).collect();
    let mut last = 0;
    for store in stores.iter().cycle().take(12) {
        let handed = hand_out(store).await;
        assert!(handed.is_above(&loss.lost));
        assert!(last == 0 || handed.position == last + 1, "{handed:?} came after position {last}");
        last = handed.position;
    }
    assert_eq!(epochs(&loss.copy), 2);
}

#[tokio::test]
async fn looking_at_a_copy_changes_nothing_in_it() {
    let loss = Loss::suffered().await;
    let looking = SqliteOptions { migrate: false, ..SqliteOptions::default() };
    let store = SqliteStore::open(&loss.copy, &looking).unwrap();
    assert_eq!(store.read_whole_stream(&stream("log")).await.unwrap().len(), 3);
    loss.is_noticed_by_readers_of(&store).await;
    store.close().await.unwrap();
    assert_eq!(epochs(&loss.copy), 1);
    // A write begins the epoch, although the file was opened without migrations.
    let store = SqliteStore::open(&loss.copy, &looking).unwrap();
    assert!(hand_out(&store).await.is_above(&loss.lost));
}
