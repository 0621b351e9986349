//! Builds the workspace's tests and runs the binaries in parallel: `tidelock-test-run [SELECTION…]
//! [-- FILTER…]`.
//!
//! The selection is cargo's (`-p tidelock --test runs`), and what follows `--` is passed to every
//! binary.
//!
//! `cargo test` runs one binary after the other, and most of ours wait more than they work: for a
//! server, for a disk, for a lease to expire. Two at a time, on two cores, take little more than
//! half of the time. The output of a binary is kept until it has ended, and shown if it failed. Doc
//! tests are left to cargo.

mod binary;
mod pool;
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
    let failed = pool::run(binaries, filter, at_once);
    for binary in &failed {
        eprintln!("failed: cargo test -p {} {}", binary.package, binary.selection());
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
