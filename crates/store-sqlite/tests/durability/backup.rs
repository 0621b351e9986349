//! Backups of a file in use: whole, verified, of one moment, and never over anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tidelock_store::{Commit, NewEvent, RecordWrite, Store, StoreErrorKind, StoreExt, When};
use tidelock_store::{ExpectedRevision, ExpectedVersion, Wake};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};

use crate::{Place, deed, deeds, is_committed, item, key, stream};

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.folder.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// CMD-14.
#[tokio::test]
async fn a_backup_has_everything_and_is_a_store_of_its_own() {
    let place = Place::new();
    let store = place.open();
    for number in 1..=3 {
        let wake = Wake::at(item(), When::NOW);
        assert!(is_committed(&store.commit(deed("deed", number).wake(wake)).await));
    }
    let gone = RecordWrite::delete(&key("deed"), ExpectedRevision::Any);
    assert!(is_committed(&store.commit(deed("other", 1).write(gone)).await));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o640)).unwrap();

    let copy = place.folder.path().join("copy.db");
    let backup = store.backup(&copy).await.unwrap();
    let counts = (backup.events, backup.streams, backup.records, backup.items);
    assert_eq!(counts, (8, 4, 1, 1));
    assert_eq!(backup.last_position.get(), 8);
    let metadata = fs::metadata(&copy).unwrap();
    assert_eq!((backup.path, backup.bytes), (copy.clone(), metadata.len()));
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert_eq!(names(&place), ["copy.db", "store.db", "store.db-shm", "store.db-wal"]);

    // What is committed afterwards is in the store only.
    assert!(is_committed(&store.commit(deed("other", 2)).await));
    let restored = SqliteStore::open(&copy, &SqliteOptions::default()).unwrap();
    assert_eq!(restored.read_whole_stream(&stream("other-left")).await.unwrap().len(), 1);
    let next = restored.commit(deed("third", 1)).await.unwrap().committed().unwrap();
    assert!(next.appends[0].positions.unwrap().0.get() > 10, "an epoch began");
}

/// CMD-14. Each backup contains whole commits, and those that were acknowledged before it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_beside_writers_is_of_one_moment() {
    let place = Place::new();
    let store = place.open();
    let writer = store.clone();
    let (tell, mut told) = tokio::sync::watch::channel(0);
    let writing = tokio::spawn(async move {
        let mut number = 0;
        while !tell.is_closed() {
            number += 1;
            assert!(is_committed(&writer.commit(deed("deed", number)).await));
            let _ = tell.send(number);
        }
        number
    });
    let mut last = 0;
    for nth in 0..5 {
        told.wait_for(|number| *number > last + 20).await.unwrap();
        let before = *told.borrow();
        let path = place.folder.path().join(format!("copy-{nth}.db"));
        // Another process does it like this.
        let backup =
            SqliteStore::back_up_file(place.path(), &path, &SqliteOptions::default()).unwrap();
        let copy = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        last = deeds(&copy, "deed").await;
        assert!(last >= before, "the backup has {last} of {before} acknowledged commits");
        assert_eq!(backup.events, last * 2);
        copy.close().await.unwrap();
    }
    drop(told);
    let written = writing.await.unwrap();
    assert_eq!(deeds(&store, "deed").await, written);
}

/// CMD-14.
#[tokio::test]
async fn a_backup_overwrites_nothing() {
    let place = Place::new();
    let store = place.open();
    assert!(is_committed(&store.commit(deed("deed", 1)).await));
    let in_folder = |name: &str| place.folder.path().join(name);
    fs::write(in_folder("file.db"), "mine").unwrap();
    fs::write(in_folder("logged.db-wal"), "mine").unwrap();
    std::os::unix::fs::symlink(in_folder("nowhere"), in_folder("link.db")).unwrap();
    let before = names(&place);
    for name in ["file.db", "logged.db", "link.db", "store.db"] {
        let refused = store.backup(in_folder(name)).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid);
        assert!(refused.to_string().contains("overwrites nothing"), "{refused}");
        assert!(refused.to_string().contains(name), "{refused}");
    }
    let refused = store.backup(in_folder("none/copy.db")).await.unwrap_err();
    assert!(refused.to_string().contains("does not exist: create it first"), "{refused}");
    assert_eq!(names(&place), before);
    assert_eq!(fs::read_to_string(in_folder("file.db")).unwrap(), "mine");
    place.check_integrity();
}

/// CMD-14.
#[tokio::test]
async fn a_backup_of_a_damaged_file_is_an_error_and_no_file() {
    let place = Place::new();
    let store = place.open();
    let commit = |nth| {
        let text = format!("{nth} {}", "x".repeat(3_000));
        let event = NewEvent::of("said", &text).unwrap();
        Commit::new().append(&stream("long"), ExpectedVersion::Any, [event])
    };
    for nth in 0..40 {
        assert!(is_committed(&store.commit(commit(nth)).await));
    }
    store.close().await.unwrap();
    let mut bytes = fs::read(place.path()).unwrap();
    let third = bytes.len() / 3;
    bytes[third..third * 2].fill(0xa5);
    fs::write(place.path(), bytes).unwrap();
    let to = place.folder.path().join("copy.db");
    let refused =
        SqliteStore::back_up_file(place.path(), &to, &SqliteOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Corrupt, "{refused}");
    assert!(!names(&place).iter().any(|name| name.starts_with("copy")), "{:?}", names(&place));
}

/// CMD-14. SQLite copies these rows without a word; only the check of the copy finds them.
#[tokio::test]
async fn a_copy_that_is_not_whole_is_an_error_and_no_file() {
    let place = Place::new();
    place.open().close().await.unwrap();
    let damage = "CREATE TABLE mine (one TEXT); INSERT INTO mine VALUES (NULL);
                  PRAGMA writable_schema = ON;
                  UPDATE sqlite_schema SET sql = 'CREATE TABLE mine (one TEXT NOT NULL)'
                  WHERE name = 'mine'";
    rusqlite::Connection::open(place.path()).unwrap().execute_batch(damage).unwrap();
    let store = place.open();
    let refused = store.backup(place.folder.path().join("copy.db")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Corrupt, "{refused}");
    assert!(refused.to_string().contains("NULL value in mine.one"), "{refused}");
    assert!(!names(&place).iter().any(|name| name.starts_with("copy")), "{:?}", names(&place));
}

/// CMD-14. Not a store, and not there: nothing is made of it.
#[test]
fn a_backup_of_no_store_is_refused() {
    let place = Place::new();
    let to = place.folder.path().join("copy.db");
    let back_up = || SqliteStore::back_up_file(place.path(), &to, &SqliteOptions::default());
    back_up().unwrap_err();
    assert_eq!(names(&place), [""; 0]);
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    connection.execute_batch("CREATE TABLE mine (one)").unwrap();
    let refused = back_up().unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Incompatible);
    assert!(refused.to_string().contains("no Tidelock store"), "{refused}");
    drop(connection);
    assert_eq!(names(&place), ["store.db"]);
}
