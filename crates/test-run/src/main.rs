//! Builds the workspace's tests and runs the binaries side by side: `tidelock-test-run [SELECTION…]
//! [-- FILTER…]`.
//!
//! The selection is cargo's (`-p tidelock --test runs`), and what follows `--` is given to every
//! binary.
//!
//! `cargo test` runs one binary after the other, and most of ours wait more than they work: for a
//! server, for a disk, for a lease to end. Two at a time, on two cores, take little more than half
//! of the time. What a binary says is kept until it has ended, and shown where it failed. Examples
//! in the documentation are cargo's own to run, and not run here.

mod binary;
mod crew;
mod suite;

use std::env;
use std::process::ExitCode;
use std::thread;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let mut parts = words.splitn(2, |word| word == "--");
    let (selection, filter) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let binaries = match suite::build(selection) {
        Ok(binaries) => binaries,
        Err(failure) => {
            eprintln!("tidelock-test-run: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let failed = crew::run(binaries, filter, at_once);
    for binary in &failed {
        eprintln!("failed: cargo test -p {} {}", binary.package, binary.selection());
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
