//! Storm test: writers, lessees and a reader in separate processes on one file, while some are
//! killed and one is stopped.
//!
//! Writers append to shared streams and wake an item for each. Lessees lease the items and record
//! what they handled, in the commit that settles the lease. A reader follows the feed. Every
//! process reports what it is about to commit and what was acknowledged, so that the audit can
//! compare the file with all reports. Lessees that are to be killed report that while they hold a
//! lease; the kills of writers hit at any point.

mod audit;
mod journal;
mod lessee;
mod phase;
mod reader;
mod writer;

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tidelock_store::{ItemRef, Lease, StreamName};

use crate::dice::Dice;
use crate::worker::Worker;
use crate::{block_on, check_integrity, open};
use journal::{ACK, HELD, HOLDING, Journal, TRY};
use phase::Phase;

pub(crate) use lessee::lessee;
pub(crate) use reader::reader;
pub(crate) use writer::writer;

/// Streams that all writers append to, each with an item that lessees work on.
const SHARED: u64 = 6;
const WRITERS: u64 = 3;
const DOOMED_WRITERS: u64 = 8;
const LESSEES: u64 = 2;
const DOOMED_LESSEES: u64 = 6;
/// The least commits of each writer that is not killed.
const COMMITS: u64 = 100;
/// The bound of the counter: less than the writers would take.
const STOCK: i64 = 200;
const LEASE: Duration = Duration::from_millis(200);

/// Schedules 20, 96 and 99; LOG-2, LOG-3, LOG-7, REC-2, REC-4, LEASE-1, LEASE-2, LEASE-3, LEASE-5,
/// LEASE-6, COMMIT-1, COMMIT-4 and COMMIT-5, each across processes.
pub(crate) fn nothing_is_lost_or_done_twice_in_a_storm_of_processes() {
    let mut dice = Dice::for_test("nothing_is_lost_or_done_twice_in_a_storm_of_processes");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (file, store) = (path.to_str().unwrap(), open(&path));
    let journal = &Journal::default();
    let start = |role, name: &str, number: u64, seed: u64| {
        Worker::start(role, &[&file, &name, &number.to_string(), &seed.to_string()])
    };
    let start = &start;
    let results = thread::scope(|scope| {
        let listen = |worker: Worker| scope.spawn(move || journal.hear_out(worker));
        let reader = listen(start("reader", "reader", 0, 0));
        let mut writers = Vec::new();
        for n in 0..WRITERS {
            writers.push(listen(start("writer", &format!("writer-{n}"), COMMITS, dice.next())));
        }
        let mut lessees = Vec::new();
        for n in 0..LESSEES {
            lessees.push(listen(start("lessee", &format!("lessee-{n}"), u64::MAX, 0)));
        }
        let mut scripts =
            vec![scope.spawn(|| stop_past_the_lease(start("lessee", "sleeper", 1, 0), journal))];
        for n in 0..DOOMED_WRITERS {
            // Some are killed with a commit in flight, some with one just done.
            let (verb, times, seed) = ([TRY, ACK][n as usize % 2], 1 + dice.below(40), dice.next());
            let writer = start("writer", &format!("doomed-writer-{n}"), u64::MAX, seed);
            scripts.push(scope.spawn(move || kill_after(writer, verb, times, journal)));
        }
        for n in 0..DOOMED_LESSEES {
            let lessee = start("lessee", &format!("doomed-lessee-{n}"), 1 + dice.below(3), 0);
            scripts.push(scope.spawn(move || kill_after(lessee, HOLDING, 1, journal)));
        }
        // Each phase begins whatever happened in the one before, so that every process ends and the
        // failure is shown.
        let phases = [
            (scripts, Phase::EnoughWritten),
            (writers, Phase::Drain),
            (lessees, Phase::Over),
            (vec![reader], Phase::Over),
        ];
        let mut results = Vec::new();
        for (threads, then) in phases {
            results.extend(threads.into_iter().map(thread::ScopedJoinHandle::join));
            block_on(then.begin(&store));
        }
        results
    });
    assert!(results.iter().all(Result::is_ok), "a worker did not do its part");
    block_on(audit::audit(&store, &journal.take()));
    drop(store);
    check_integrity(&path);
}

/// Kills a worker as soon as it has reported this so many times.
fn kill_after(worker: Worker, verb: &str, times: u64, journal: &Journal) {
    let mut left = times;
    while left > 0 {
        let line = worker.line().expect("it goes on until it is killed");
        left -= u64::from(line.split(' ').nth(1) == Some(verb));
        journal.note(&line);
    }
    for line in worker.kill() {
        journal.note(&line);
    }
}

/// Schedule 20: stops a worker that holds leases until others have all of them, and then lets it
/// continue.
fn stop_past_the_lease(mut sleeper: Worker, journal: &Journal) {
    let mut held: Vec<Lease> = Vec::new();
    loop {
        let line = sleeper.line().expect("it leases something");
        journal.note(&line);
        let mut words = line.splitn(3, ' ').skip(1);
        match (words.next(), words.next()) {
            (Some(HELD), Some(lease)) => held.push(serde_json::from_str(lease).unwrap()),
            (Some(HOLDING), _) => break,
            _ => {}
        }
    }
    sleeper.send(Signal::SIGSTOP);
    // One that was not leased again is still its own to settle, however late.
    let took_over =
        |held: &Lease, lease: Lease| lease.item == held.item && lease.fence > held.fence;
    journal.wait_until(|told| {
        let is_taken = |held: &Lease| {
            told.iter().any(|t| t.lease().is_some_and(|lease| took_over(held, lease)))
        };
        held.iter().all(is_taken)
    });
    sleeper.send(Signal::SIGCONT);
    sleeper.tell("go on");
    journal.hear_out(sleeper);
}

fn shared_stream(n: u64) -> StreamName {
    StreamName::new(format!("shared-{n}")).unwrap()
}

/// The item with the work of a shared stream.
fn item_of(stream: &StreamName) -> ItemRef {
    ItemRef::parse("work", stream.as_str()).unwrap()
}

/// The stream that records what was done of an item.
fn done_stream(item: &ItemRef) -> StreamName {
    StreamName::new(format!("done-{}", item.key)).unwrap()
}
