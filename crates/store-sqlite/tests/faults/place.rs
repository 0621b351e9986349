//! Schedule 73: a network file system, a fork, and a file that is removed or replaced under a
//! running store.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use tidelock_store::{
    ItemRef, LeaseRequest, RetryAdvice, Store, StoreError, StoreErrorKind, StreamName, StreamQuery,
    WorkerName,
};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};

use crate::power::{committed, deed};
use crate::shim::{Control, Shim};
use crate::worker::{Part, Worker};
use crate::{block_on, open};

pub(crate) fn a_network_file_system_is_refused() {
    let shim = Shim::new();
    shim.control().set("lie nfs");
    shim.start("guest", &[]).finish();
    assert!(
        !fs::exists(shim.file()).unwrap(),
        "nothing is put on a file system that cannot be trusted"
    );
}

pub(crate) fn guest(part: &Part) {
    let refused =
        SqliteStore::open(part.argument(0), &SqliteOptions::default()).expect_err("it is on NFS");
    assert_eq!((refused.kind(), refused.advice()), (StoreErrorKind::Invalid, RetryAdvice::Never));
    assert!(refused.to_string().contains("network file system (NFS)"), "{refused}");
}

pub(crate) fn a_forked_process_is_refused() {
    Shim::new().start("fork", &[]).finish();
}

/// As after a fork: the same memory, in another process.
pub(crate) fn fork(part: &Part) {
    let (store, control) = (open(part.argument(0)), Control::at(part.argument(1)));
    block_on(async {
        let _ = store.commit(deed(0, 1, 10)).await.unwrap();
        control.set("lie pid");
        let stream = StreamName::new("task-0").unwrap();
        let item = ItemRef::parse("mail", "letter").unwrap();
        let lease = LeaseRequest::new(
            &item.queue,
            &WorkerName::new("child").unwrap(),
            Duration::from_secs(1),
            1,
        );
        let refusals = [
            store.commit(deed(0, 2, 10)).await.err(),
            store.read_stream(StreamQuery::forward(&stream)).await.err(),
            store.lease(lease).await.err(),
            store.close().await.err(),
        ];
        for refused in refusals {
            let refused = refused.expect("the child is refused");
            assert_eq!(
                (refused.kind(), refused.advice()),
                (StoreErrorKind::Unavailable, RetryAdvice::Never)
            );
            assert!(refused.to_string().contains("was forked from"), "{refused}");
        }
        control.lift();
        assert_eq!(
            committed(&store, 0).await,
            1,
            "the parent goes on, and the child wrote nothing"
        );
        let _ = store.commit(deed(0, 2, 10)).await.unwrap();
    });
}

/// A log that is created, and owned, by another user would keep the owner of the file from writing.
pub(crate) fn a_user_without_write_access_gets_an_error_and_leaves_nothing_beside_the_file() {
    let shim = Shim::new();
    block_on(async { open(shim.file()).close().await.unwrap() });
    shim.control().set("lie rights");
    shim.start("stranger", &[]).finish();
}

pub(crate) fn stranger(part: &Part) {
    let path = Path::new(part.argument(0));
    for migrate in [true, false] {
        let options = SqliteOptions { migrate, ..SqliteOptions::default() };
        let refused = SqliteStore::open(path, &options).expect_err("it may not be written");
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Storage, RetryAdvice::Never)
        );
        assert!(refused.to_string().contains("cannot be written by this user"), "{refused}");
        for beside in ["store.db-wal", "store.db-shm"] {
            assert!(
                !fs::exists(path.with_file_name(beside)).unwrap(),
                "{beside}, migrate: {migrate}"
            );
        }
    }
}

/// Damage to a file.
type Harm<'a> = &'a dyn Fn(&Path);

/// Each of these would lose every later commit: SQLite continues to write to files that no process
/// will find.
pub(crate) fn a_file_that_is_taken_away_takes_no_more_commits() {
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let replace = |path: &Path| {
        let copy = path.with_extension("copy");
        // The copy is made by another process: closing a file here would release the locks that
        // SQLite has on it.
        assert!(std::process::Command::new("cp").args([path, &copy]).status().unwrap().success());
        fs::rename(copy, path).unwrap();
    };
    let harms: [(&str, &str, Harm<'_>); _] = [
        ("store.db", "deleted or moved", &remove),
        ("store.db", "deleted or moved", &|path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
        }),
        ("store.db", "was replaced", &replace),
        ("store.db-wal", "-wal", &remove),
        ("store.db-wal", "-wal", &replace),
        ("store.db-shm", "-shm", &remove),
        ("store.db-shm", "-shm", &replace),
    ];
    for (name, said, harm) in harms {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path().join("store.db"));
        block_on(async {
            let _ = store.commit(deed(0, 1, 10)).await.unwrap();
            harm(&folder.path().join(name));
            for _ in 0..2 {
                let refused: StoreError = match store.commit(deed(0, 2, 10)).await {
                    Err(refused) => refused,
                    Ok(_) => panic!("acknowledged after {name} was harmed ({said})"),
                };
                assert_eq!(
                    (refused.kind(), refused.advice()),
                    (StoreErrorKind::Unavailable, RetryAdvice::Never)
                );
                assert!(refused.to_string().contains(said), "{refused}");
            }
            // An orderly close may fail, but it must not hang.
            let _ = store.close().await;
        });
    }
}

pub(crate) fn a_link_and_a_relative_path_lead_to_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    let real = folder.path().join("real/store.db");
    let link = folder.path().join("link.db");
    open(&real);
    symlink(&real, &link).unwrap();
    Worker::start("traveller", &[&folder.path(), &real, &link]).finish();
}

/// In its own process, because the working directory belongs to the whole process.
pub(crate) fn traveller(part: &Part) {
    let [folder, real, link] = [0, 1, 2].map(|at| part.argument(at));
    std::env::set_current_dir(folder).unwrap();
    let stores = [open("real/store.db"), open(link), open(real)];
    std::env::set_current_dir("/").unwrap();
    block_on(async {
        for (number, store) in (1..).zip(&stores) {
            let _ = store.commit(deed(0, number, 10)).await.expect("it is still the same file");
            for store in &stores {
                assert_eq!(committed(store, 0).await, number);
            }
        }
    });
}
