//! The journal: what the processes reported, each line with its sender, its subject and the JSON.
//!
//! A commit is reported before it is sent (`try`) and after the answer (`ack` or `refused`), and a
//! lease once it was granted (`held`). A try without an answer is one whose process was killed in
//! the meantime: it may have happened.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use tidelock_store::{Commit, CommitOutcome, Committed, Conflict, Lease, Store, StoredEvent};
use tidelock_store_sqlite::SqliteStore;

use crate::worker::{Worker, say};

/// Against hanging only.
const DEADLINE: Duration = Duration::from_secs(60);

// The verbs that scripts wait for.
pub(super) const TRY: &str = "try";
pub(super) const ACK: &str = "ack";
pub(super) const HELD: &str = "held";
pub(super) const HOLDING: &str = "holding";

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) who: String,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Try(Commit),
    Ack(Commit, Committed),
    Refused(Commit, Conflict),
    Held(Lease),
    /// It waits, while it holds leases, to be killed or stopped.
    Holding,
    Seen(Vec<StoredEvent>),
}

impl Told {
    fn read(line: &str) -> Self {
        let mut words = line.splitn(3, ' ');
        let (who, verb, thing) =
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let both = || thing.split_once('\t').unwrap();
        let commit = || serde_json::from_str(both().0).unwrap();
        let what = match verb {
            TRY => What::Try(serde_json::from_str(thing).unwrap()),
            ACK => What::Ack(commit(), serde_json::from_str(both().1).unwrap()),
            "refused" => What::Refused(commit(), serde_json::from_str(both().1).unwrap()),
            HELD => What::Held(serde_json::from_str(thing).unwrap()),
            HOLDING => What::Holding,
            "seen" => What::Seen(serde_json::from_str(thing).unwrap()),
            _ => panic!("{who} says {verb:?}"),
        };
        Self { who: who.to_owned(), what }
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        match &self.what {
            What::Held(lease) => Some(lease.clone()),
            _ => None,
        }
    }
}

/// All lines, in the order in which they were received.
#[derive(Debug, Default)]
pub(super) struct Journal {
    told: Mutex<Vec<Told>>,
    more: Condvar,
}

impl Journal {
    pub(super) fn note(&self, line: &str) {
        self.told.lock().unwrap().push(Told::read(line));
        self.more.notify_all();
    }

    /// Records everything that a worker reports, until its end.
    pub(super) fn hear_out(&self, worker: Worker) {
        while let Some(line) = worker.line() {
            self.note(&line);
        }
        worker.finish();
    }

    /// Waits until something was reported.
    pub(super) fn wait_until(&self, said: impl Fn(&[Told]) -> bool) {
        let told = self.told.lock().unwrap();
        let (_told, waited) =
            self.more.wait_timeout_while(told, DEADLINE, |told| !said(told)).unwrap();
        assert!(!waited.timed_out(), "what was waited for was never said");
    }

    pub(super) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

/// The worker's side: sends a commit and reports it, before and after.
pub(super) async fn send(who: &str, store: &SqliteStore, commit: &Commit) -> CommitOutcome {
    let text = serde_json::to_string(commit).unwrap();
    say(format!("{who} {TRY} {text}"));
    let outcome = store.commit(commit.clone()).await.expect("no fault was injected");
    match &outcome {
        CommitOutcome::Committed(committed) => {
            say(format!("{who} {ACK} {text}\t{}", serde_json::to_string(committed).unwrap()));
        }
        CommitOutcome::Conflict(conflict) => {
            say(format!("{who} refused {text}\t{}", serde_json::to_string(conflict).unwrap()));
        }
    }
    outcome
}
