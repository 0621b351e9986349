//! Schedule 72: the disk is full, or fails to write or to flush.
//!
//! Nothing is acknowledged that is not there. Every caller whose commit shared the failed
//! transaction gets an error. An unknown outcome is resolved by sending the same commit again. Once
//! the disk works again, so does the store, without a reopen. COMMIT-4, COMMIT-5, COMMIT-6.

use std::path::Path;

use nix::errno::Errno;
use tidelock_store::{
    Commit, CommitOutcome, Result, RetryAdvice, Revision, Store, StoreErrorKind, StoreExt,
};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};
use tidelock_test_disk::Happening;

use crate::dice::Dice;
use crate::power::{Acknowledged, check_losses, committed, deed};
use crate::shim::{Control, Shim};
use crate::worker::{Part, order, say};
use crate::{block_on, integrity, open};

/// Concurrent callers, so that they share transactions.
const CALLERS: u64 = 24;

/// A fault of the disk, and the error that a caller gets.
struct Fault {
    line: String,
    kind: StoreErrorKind,
    /// No commit succeeds while it lasts.
    lasting: bool,
}

fn faults() -> Vec<Fault> {
    let (full, broken) = (Errno::ENOSPC as i32, Errno::EIO as i32);
    let fault = |line, kind, lasting| Fault { line, kind, lasting };
    let mut faults = Vec::new();
    for from in [1, 2, 3, 6] {
        for (error, kind) in [(full, StoreErrorKind::Full), (broken, StoreErrorKind::Storage)] {
            faults.push(fault(format!("fail write -wal {from} 0 {error}"), kind, true));
            faults.push(fault(format!("fail write -wal {from} 1 {error}"), kind, false));
            faults.push(fault(format!("tear -wal {from} {error}"), kind, true));
        }
    }
    for error in [full, broken] {
        // It is unknown what a failed flush has left undone, whatever its cause.
        faults.push(fault(format!("fail sync -wal 1 0 {error}"), StoreErrorKind::Storage, true));
        faults.push(fault(format!("fail sync -wal 1 1 {error}"), StoreErrorKind::Storage, false));
    }
    faults
}

pub(crate) fn a_failing_disk_acknowledges_nothing_and_is_forgiven() {
    let mut dice = Dice::for_test("a_failing_disk_acknowledges_nothing_and_is_forgiven");
    let shim = Shim::new();
    let told = shim.start("sufferer", &[]).finish();
    println!("{}", told.join("; "));
    assert_eq!(integrity(&shim.file()), "ok");

    let happenings = shim.happenings();
    let failed = happenings
        .iter()
        .filter(|(_, happening)| matches!(happening, Happening::FailedSync))
        .count();
    assert!(failed >= 4, "only {failed} flushes failed");
    // A failed flush must not be covered up by a later one that succeeds.
    let acknowledged = check_losses(&happenings, &mut dice);
    let store = open(shim.file());
    block_on(async {
        for task in acknowledged.keys() {
            assert_eq!(committed(&store, *task).await, 1, "deed {task} was done once");
        }
    });
    assert!(acknowledged.len() as u64 >= faults().len() as u64 * CALLERS);
}

/// Goes through one fault after another.
pub(crate) fn sufferer(part: &Part) {
    let (store, control) = (open(part.argument(0)), Control::at(part.argument(1)));
    let mut sufferer = Sufferer {
        store,
        acknowledged: Acknowledged::beside(part.argument(0)),
        deeds: 0,
        later: 0,
        unknown: 0,
    };
    block_on(async {
        for fault in faults() {
            for callers in [1, CALLERS] {
                // A single failure may hit a checkpoint, for which no caller waits.
                let mut tries = 0;
                while sufferer.live_through(&fault, &control, callers).await == 0 {
                    tries += 1;
                    assert!(tries < 10 && !fault.lasting, "{}: it hits no caller", fault.line);
                }
            }
        }
    });
    say(format!(
        "{} deeds, {} put off, {} unknown",
        sufferer.deeds, sufferer.later, sufferer.unknown
    ));
    assert!(sufferer.later > 50 && sufferer.unknown > 50, "the faults hit hardly any caller");
}

struct Sufferer {
    store: SqliteStore,
    acknowledged: Acknowledged,
    deeds: u64,
    later: u64,
    unknown: u64,
}

impl Sufferer {
    /// Returns how many calls failed.
    async fn live_through(&mut self, fault: &Fault, control: &Control, callers: u64) -> u64 {
        control.set(&fault.line);
        let answers = self.commit_at_once(callers).await;
        control.lift();

        let failed = answers.iter().filter(|(_, _, answer)| answer.is_err()).count() as u64;
        if fault.lasting && fault.line.contains(" 1 ") {
            assert_eq!(failed, callers, "{}: each of them is told", fault.line);
        }
        for (task, commit, answer) in answers {
            match answer {
                Ok(outcome) => assert!(matches!(outcome, CommitOutcome::Committed(_))),
                Err(error) => {
                    assert_eq!(error.kind(), fault.kind, "{}: {error}", fault.line);
                    let found = committed(&self.store, task).await;
                    match error.advice() {
                        // What could not be flushed may be on the disk all the same, for the next
                        // process that opens it.
                        RetryAdvice::Later if fault.line.contains("sync") => {
                            panic!("{}: {error}", fault.line)
                        }
                        RetryAdvice::Later => {
                            assert_eq!(found, 0, "{}: written after all: {error}", fault.line);
                        }
                        RetryAdvice::Unknown => self.unknown += 1,
                        RetryAdvice::Never => {
                            panic!("{}: it does help to try again: {error}", fault.line)
                        }
                    }
                    self.later += u64::from(error.advice() == RetryAdvice::Later);
                    // The disk works again; so must the store, and the id tells the outcome of the
                    // first attempt.
                    let again = self.store.commit(commit).await.expect("the disk works again");
                    assert!(matches!(again, CommitOutcome::Committed(_)));
                }
            }
            assert_eq!(committed(&self.store, task).await, 1);
            self.acknowledged.note(task, 1);
        }
        failed
    }

    async fn commit_at_once(&mut self, callers: u64) -> Vec<(u64, Commit, Result<CommitOutcome>)> {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..callers {
            let (store, task) = (self.store.clone(), self.deeds);
            self.deeds += 1;
            tasks.spawn(async move {
                let commit = deed(task, 1, 3_000);
                (task, commit.clone(), store.commit(commit).await)
            });
        }
        tasks.join_all().await
    }
}

/// Schedule 10 in spirit. Why a failed flush is `Unknown`: what was not flushed is in the log all
/// the same, and the next process that opens the file finds it there.
pub(crate) fn an_unknown_commit_may_have_happened_and_its_id_tells() {
    let shim = Shim::new();
    let unlucky = shim.start("unlucky", &[]);
    let commit: Commit = serde_json::from_str(&unlucky.hear("unknown")).unwrap();
    unlucky.kill();
    shim.control().lift();
    let store = open(shim.file());
    block_on(async {
        assert_eq!(committed(&store, 0).await, 1, "what was acknowledged before is there");
        assert_eq!(committed(&store, 1).await, 1, "and so is what was not");
        let first = store.commit(commit.clone()).await.unwrap();
        assert_eq!(store.commit(commit.clone()).await.unwrap(), first);
        let revision = store.get_one(&commit.writes[0].key).await.unwrap().revision();
        assert_eq!(revision, Some(Revision::FIRST), "it was written once");
        assert_eq!(committed(&store, 1).await, 1);
    });
}

pub(crate) fn unlucky(part: &Part) {
    let (store, control) = (open(part.argument(0)), Control::at(part.argument(1)));
    block_on(async {
        let _ = store.commit(deed(0, 1, 100)).await.unwrap();
        control.set(&format!("fail sync -wal 1 0 {}", Errno::EIO as i32));
        let commit = deed(1, 1, 100);
        let failed = store.commit(commit.clone()).await.expect_err("the disk does not flush");
        assert_eq!(
            (failed.kind(), failed.advice()),
            (StoreErrorKind::Storage, RetryAdvice::Unknown),
            "{failed}"
        );
        say(format!("unknown {}", serde_json::to_string(&commit).unwrap()));
    });
    order();
}

/// Wherever the creation of a new file is interrupted, the file can be created later.
pub(crate) fn a_full_disk_refuses_a_new_file_and_leaves_no_trace() {
    let told = Shim::new().start("newcomer", &[]).finish();
    println!("{}", told.join("; "));
}

pub(crate) fn newcomer(part: &Part) {
    let control = Control::at(part.argument(1));
    for (what, error) in [("write", Errno::ENOSPC), ("write", Errno::EIO), ("sync", Errno::EIO)] {
        let mut refused = 0;
        loop {
            let path = Path::new(part.argument(0))
                .with_file_name(format!("{what}-{error:?}-{refused}.db"));
            control.set(&format!("fail {what} any {} 0 {}", refused + 1, error as i32));
            let opened = SqliteStore::open(&path, &SqliteOptions::default());
            control.lift();
            match opened {
                Ok(_) => break,
                Err(refusal) => {
                    let kind = refusal.kind();
                    assert!(
                        matches!(kind, StoreErrorKind::Full | StoreErrorKind::Storage),
                        "{kind:?}: {refusal}"
                    );
                    assert_eq!(refusal.operation(), tidelock_store::StoreOperation::Open);
                }
            }
            let store = open(&path);
            block_on(async {
                let _ = store.commit(deed(0, 1, 100)).await.expect("the disk works again");
                store.close().await.unwrap();
            });
            assert_eq!(integrity(&path), "ok");
            refused += 1;
        }
        say(format!("{what} {error}: {refused} refusals"));
        assert!(refused > 2, "making a file takes more than {refused} calls of {what}");
    }
}

/// What cannot be moved from the log into the file stays in the log.
pub(crate) fn a_failing_checkpoint_fails_no_commit() {
    let shim = Shim::new();
    shim.start("mover", &[]).finish();
    assert_eq!(integrity(&shim.file()), "ok");
    let store = open(shim.file());
    block_on(async {
        for task in 0..CALLERS {
            assert_eq!(committed(&store, task).await, 20);
        }
    });
}

pub(crate) fn mover(part: &Part) {
    let (store, control) = (open(part.argument(0)), Control::at(part.argument(1)));
    let faults = [
        ("fail write store.db 1 0", Errno::ENOSPC),
        ("fail sync store.db 1 0", Errno::EIO),
        ("fail write store.db 3 0", Errno::EIO),
        ("fail sync store.db 1 1", Errno::EIO),
    ];
    block_on(async {
        for (round, (line, error)) in faults.into_iter().enumerate() {
            control.set(&format!("{line} {}", error as i32));
            // More than the log holds before a checkpoint.
            for number in 1..=5 {
                let mut tasks = tokio::task::JoinSet::new();
                for task in 0..CALLERS {
                    let (store, number) = (store.clone(), round as u64 * 5 + number);
                    tasks.spawn(async move { store.commit(deed(task, number, 120_000)).await });
                }
                for answer in tasks.join_all().await {
                    assert!(
                        matches!(answer, Ok(CommitOutcome::Committed(_))),
                        "{line}: {answer:?}"
                    );
                }
            }
            control.lift();
        }
        store.close().await.unwrap();
    });
}
