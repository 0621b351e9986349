//! Schedule 80: several processes open, and so create and migrate, one new file at once.

use tidelock_store::{CommitOutcome, ExpectedVersion, NewEvent, Store, StoreExt, StreamName};

use crate::worker::{Part, Worker, order, say};
use crate::{block_on, check_integrity, open};

const PROCESSES: usize = 8;
const ROUNDS: usize = 4;

pub(crate) fn eight_processes_open_a_new_file_at_once() {
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut openers: Vec<_> =
            (0..PROCESSES).map(|_| Worker::start("opener", &[&path])).collect();
        for opener in &openers {
            opener.hear("ready");
        }
        for opener in &mut openers {
            opener.tell("open");
        }
        let mut versions: Vec<u64> =
            openers.iter().map(|opener| opener.hear("committed").parse().unwrap()).collect();
        for opener in openers {
            opener.finish();
        }
        versions.sort_unstable();
        assert_eq!(
            versions,
            (1..=PROCESSES as u64).collect::<Vec<_>>(),
            "each of them committed, once"
        );
        let events = block_on(async { open(&path).read_whole_stream(&stream()).await.unwrap() });
        assert_eq!(events.len(), PROCESSES);
        check_integrity(&path);
    }
}

pub(crate) fn opener(part: &Part) {
    say("ready");
    order();
    let store = open(part.argument(0));
    block_on(async {
        let event = NewEvent::of("opened", &0).unwrap();
        let outcome = store.append(&stream(), ExpectedVersion::Any, vec![event]).await.unwrap();
        let CommitOutcome::Committed(committed) = outcome else { panic!("anything was expected") };
        say(format!("committed {}", committed.appends[0].version));
        store.close().await.unwrap();
    });
}

fn stream() -> StreamName {
    StreamName::new("openings").unwrap()
}
