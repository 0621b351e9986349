//! Runs a command whose tests use stores with a history: `tidelock-test-past COMMAND ARGS…`.
//!
//! The `tidelock` command has to be built; it is expected beside this program. `tidelock-test-past
//! --leave URL` only leaves traces in a store: that is how the fixtures were made.

// Clippy allows `unwrap` in tests, but not in their shared code.
#![allow(clippy::unwrap_used)]

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use tidelock_test_stage::past;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--leave", url] => leave(url),
        [program, ..] => run(Command::new(program).args(&words[1..])),
        [] => {
            eprintln!("usage: tidelock-test-past COMMAND ARGS…");
            ExitCode::from(2)
        }
    }
}

fn leave(url: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = tidelock::open(url).await.unwrap();
        past::leave(&store, "old").await;
        store.close().await.unwrap();
    });
    ExitCode::SUCCESS
}

fn run(command: &mut Command) -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let here = env::current_exe().unwrap();
    past::make(folder.path(), &here.parent().unwrap_or(Path::new(".")).join("tidelock"));
    let status = command.env(past::PAST, folder.path()).status().unwrap();
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
