//! The write-ahead log restarts from time to time, even if there is never a moment without a
//! writer.

use std::fs;
use std::path::Path;

use tidelock_store::{Commit, ExpectedVersion, NewEvent, Store, StoreExt, StreamName};

use crate::worker::{Part, Worker, say};
use crate::{block_on, check_integrity, open};

const PROCESSES: u64 = 5;
const COMMITS: u64 = 180;
/// The approximate size of one commit.
const COMMIT_BYTES: usize = 100_000;
/// A log is checkpointed from 8 MiB on, and restarts at 32 MiB even under load. All commits
/// together write 90 MB, so a log that never restarts is well past this.
const LIMIT: u64 = 56 << 20;

pub(crate) fn the_log_stays_short_while_several_processes_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    // Held open, so that the log is not removed when the last of them ends.
    let store = open(&path);
    let fillers: Vec<_> =
        (0..PROCESSES).map(|n| Worker::start("filler", &[&path, &n.to_string()])).collect();
    let mut longest = 0;
    for filler in fillers {
        let said = filler.finish().pop().expect("it says how long the log was");
        longest = longest.max(said.parse().unwrap());
    }
    println!("the log grew to {} MiB at most", longest >> 20);
    assert!(longest < LIMIT, "the log grew to {longest} bytes");
    for n in 0..PROCESSES {
        let events = block_on(store.read_whole_stream(&stream(n))).unwrap();
        assert_eq!(events.len() as u64, COMMITS);
    }
    drop(store);
    check_integrity(&path);
}

/// Commits from two tasks, so that there is always a next one; reports how long the log was.
pub(crate) fn filler(part: &Part) {
    let (path, stream) = (Path::new(part.argument(0)), stream(part.number(1)));
    let store = open(path);
    let payload = "x".repeat(COMMIT_BYTES);
    let fill = || async {
        let mut longest = 0;
        for _ in 0..COMMITS / 2 {
            let event = NewEvent::of("filled", &payload).unwrap();
            let _ = store
                .commit(Commit::new().append(&stream, ExpectedVersion::Any, [event]))
                .await
                .unwrap();
            longest = longest.max(fs::metadata(path.with_extension("db-wal")).unwrap().len());
        }
        longest
    };
    let (one, other) = block_on(async { tokio::join!(fill(), fill()) });
    say(one.max(other));
}

fn stream(n: u64) -> StreamName {
    StreamName::new(format!("filler-{n}")).unwrap()
}
