//! Fault injection: a failing disk, a power failure, a lying kernel, and a file that is removed:
//! schedules 71 to 73.
//!
//! The faults are made by `shim.c`, which the tests compile and load in front of the C library of
//! another process: this binary, started again. What needs several processes but no faults is in
//! the `processes` tests.

// Clippy lets tests unwrap, but does not see that a binary without the usual harness is one.
#![allow(clippy::unwrap_used)]

mod full;
mod place;
mod power;
mod shim;

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
            "what_was_acknowledged_survives_a_loss_of_power",
            power::what_was_acknowledged_survives_a_loss_of_power,
        ),
        ("a_careless_writer_is_found_out", power::a_careless_writer_is_found_out),
        (
            "a_failing_disk_acknowledges_nothing_and_is_forgiven",
            full::a_failing_disk_acknowledges_nothing_and_is_forgiven,
        ),
        (
            "an_unknown_commit_may_have_happened_and_its_id_tells",
            full::an_unknown_commit_may_have_happened_and_its_id_tells,
        ),
        (
            "a_full_disk_refuses_a_new_file_and_leaves_no_trace",
            full::a_full_disk_refuses_a_new_file_and_leaves_no_trace,
        ),
        ("a_failing_checkpoint_fails_no_commit", full::a_failing_checkpoint_fails_no_commit),
        ("a_network_file_system_is_refused", place::a_network_file_system_is_refused),
        ("a_forked_process_is_refused", place::a_forked_process_is_refused),
        (
            "a_user_without_write_access_gets_an_error_and_leaves_nothing_beside_the_file",
            place::a_user_without_write_access_gets_an_error_and_leaves_nothing_beside_the_file,
        ),
        (
            "a_file_that_is_taken_away_takes_no_more_commits",
            place::a_file_that_is_taken_away_takes_no_more_commits,
        ),
        (
            "a_link_and_a_relative_path_lead_to_the_same_store",
            place::a_link_and_a_relative_path_lead_to_the_same_store,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        let trial = Trial::test(name, move || {
            test();
            Ok(())
        });
        // The shim is made for the C library and the /proc of Linux.
        trial.with_ignored_flag(!cfg!(target_os = "linux"))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn play(part: &Part) {
    match part.role.as_str() {
        "committer" => power::committer(part),
        "careless" => power::careless(part),
        "sufferer" => full::sufferer(part),
        "unlucky" => full::unlucky(part),
        "newcomer" => full::newcomer(part),
        "mover" => full::mover(part),
        "guest" => place::guest(part),
        "fork" => place::fork(part),
        "stranger" => place::stranger(part),
        "traveller" => place::traveller(part),
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

/// SQLite's integrity check of the file.
fn integrity(path: &Path) -> String {
    let check = |connection: rusqlite::Connection| {
        connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
    };
    rusqlite::Connection::open(path).and_then(check).unwrap_or_else(|error| error.to_string())
}
