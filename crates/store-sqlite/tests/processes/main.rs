//! Several real processes on one file, some of them killed or stopped in the middle of their work.
//!
//! What the conformance suite shows with futures and handles is shown here with processes, pipes
//! and signals. Each file is a scenario: the test at its top, and below it the roles of the other
//! processes, which are this binary, started again. Faults of the disk or the kernel are covered by
//! the `faults` tests.

// Clippy lets tests unwrap, but does not see that a binary without the usual harness is one.
#![allow(clippy::unwrap_used)]

mod crashes;
mod locks;
mod log_size;
mod opening;
mod signals;
mod storm;

#[path = "../dice/mod.rs"]
mod dice;
#[path = "../worker/mod.rs"]
mod worker;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};
use worker::Part;

fn main() -> ExitCode {
    if let Some(part) = Part::to_play() {
        play(&part);
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); _] = [
        (
            "eight_processes_open_a_new_file_at_once",
            opening::eight_processes_open_a_new_file_at_once,
        ),
        (
            "foreign_transactions_never_fail_a_commit",
            locks::foreign_transactions_never_fail_a_commit,
        ),
        (
            "a_lock_held_for_too_long_is_unavailable_and_no_longer",
            locks::a_lock_held_for_too_long_is_unavailable_and_no_longer,
        ),
        (
            "a_killed_holders_item_is_leased_again_and_counted_once",
            crashes::a_killed_holders_item_is_leased_again_and_counted_once,
        ),
        ("a_kill_never_leaves_half_a_commit", crashes::a_kill_never_leaves_half_a_commit),
        (
            "a_signal_comes_from_another_process_and_then_is_quiet",
            signals::a_signal_comes_from_another_process_and_then_is_quiet,
        ),
        (
            "the_log_stays_short_while_several_processes_write",
            log_size::the_log_stays_short_while_several_processes_write,
        ),
        (
            "nothing_is_lost_or_done_twice_in_a_storm_of_processes",
            storm::nothing_is_lost_or_done_twice_in_a_storm_of_processes,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn play(part: &Part) {
    match part.role.as_str() {
        "opener" => opening::opener(part),
        "foreigner" => locks::foreigner(part),
        "holder" => crashes::holder(part),
        "mixer" => crashes::mixer(part),
        "waker" => signals::waker(part),
        "filler" => log_size::filler(part),
        "writer" => storm::writer(part),
        "lessee" => storm::lessee(part),
        "reader" => storm::reader(part),
        role => panic!("there is no role {role:?}"),
    }
}

fn open(path: impl AsRef<Path>) -> SqliteStore {
    SqliteStore::open(path, &SqliteOptions::default()).expect("the file opens")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime starts").block_on(future)
}

/// SQLite's integrity check of the file; no other process may have it open for writing.
fn check_integrity(path: &Path) {
    let connection = rusqlite::Connection::open(path).expect("the file opens");
    let found: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("the file can be checked");
    assert_eq!(found, "ok");
}
