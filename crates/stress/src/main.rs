//! Fault injection: real worker processes on one store, a supervisor that disturbs them, and an
//! audit at the end: `cargo run --release -p tidelock-stress -- all --store sqlite:`.
//!
//! Everything goes through the public API and real processes: this binary starts itself again as
//! workers. They keep journals; the audit compares the store with all of them. A scenario is one
//! file in `scenarios/`.
//!
//! Not here: performance (that is the bench), and failing disks.

mod args;
mod failure;

mod account;
mod board;
mod claim;
mod counts;
mod reaction;
mod rng;
mod sample_run;
mod space;

// Workers.
mod broken;
mod caller;
mod journal;
mod pipe;
mod roles;
mod trouble;
mod worker_spec;

// Supervision and fault injection.
mod faults;
mod plan;
mod process;
mod scenarios;
mod supervisor;
mod target;
mod workers;

// Evidence and audit.
mod audit;
mod claim_audit;
mod evidence;
mod finding;
mod ledger;
mod minimums;
mod reaction_audit;
mod resolver;
mod run_audit;
mod tally;

mod progress;
mod round;
mod run;
mod summary;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::roles::WORKER;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(WORKER) {
        return roles::run();
    }
    match run::run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}
