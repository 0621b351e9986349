//! Signals from another process's commit.

use std::time::Duration;

use tidelock_store::{
    ChangeHint, Commit, ExpectedRevision, ExpectedVersion, ItemRef, NewEvent, RawJson, RecordKey,
    RecordWrite, Store, StreamName, Topic, Wake, When,
};
use tokio::time::timeout;

use crate::worker::{Part, Worker, order, say};
use crate::{block_on, open};

/// Against hanging only: a signal is a hint, but on one machine it has no reason not to come.
const DEADLINE: Duration = Duration::from_secs(60);
/// Ten checks of the thread that watches the file. Silence can only be shown by listening for a
/// while.
const A_WHILE: Duration = Duration::from_millis(200);
/// More signals than one commit can cause. One that repeats without a cause repeats indefinitely.
const A_FEW: usize = 5;

pub(crate) fn a_signal_comes_from_another_process_and_then_is_quiet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    let mut waker = Worker::start("waker", &[&path]);
    waker.hear("ready");
    block_on(async {
        let topics = [Topic::Queue(item().queue), Topic::Log, Topic::Record(key())];
        let mut signals = topics.map(|topic| store.signal(topic));
        assert!(!comes(&mut signals[0], A_WHILE).await, "nothing was written yet");
        for round in 0..5 {
            waker.tell("commit");
            for signal in &mut signals {
                assert!(comes(signal, DEADLINE).await, "round {round}: {signal:?} does not come");
            }
            waker.hear("done");
            for signal in &mut signals {
                assert!(
                    falls_silent(signal).await,
                    "round {round}: {signal:?} goes on though nothing happens"
                );
            }
        }
    });
}

async fn comes(signal: &mut ChangeHint, within: Duration) -> bool {
    timeout(within, signal.wait()).await.is_ok()
}

/// Signals in flight when the commit was first noticed may still come, late on a busy machine.
async fn falls_silent(signal: &mut ChangeHint) -> bool {
    for _ in 0..A_FEW {
        if !comes(signal, A_WHILE).await {
            return true;
        }
    }
    false
}

/// Commits once per order.
pub(crate) fn waker(part: &Part) {
    let store = open(part.argument(0));
    say("ready");
    while order().is_some() {
        let commit = Commit::new()
            .append(
                &StreamName::new("rings").unwrap(),
                ExpectedVersion::Any,
                [NewEvent::of("rang", &1).unwrap()],
            )
            .write(RecordWrite::put(&key(), ExpectedRevision::Any, RawJson::new(&1).unwrap()))
            .wake(Wake::at(item(), When::NOW));
        let _ = block_on(store.commit(commit)).unwrap();
        say("done");
    }
}

fn key() -> RecordKey {
    RecordKey::new("bell").unwrap()
}

fn item() -> ItemRef {
    ItemRef::parse("mail", "letter").unwrap()
}
