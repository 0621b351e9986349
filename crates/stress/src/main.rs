//! Real worker processes on one store, a supervisor that injures them, and an audit at the end:
//! `cargo run --release -p tidelock-stress -- all --store sqlite:`.
//!
//! Everything goes through the public API and real processes: this binary starts itself again as
//! workers. They keep journals; the audit holds the store against all of them. A scenario is one
//! file in `scenarios/`.
//!
//! Not here: how fast the store is (that is the bench), and what only a failing disk can show.

mod args;
mod failure;

mod account;
mod board;
mod claim;
mod counts;
mod dice;
mod errand;
mod reaction;
mod space;

// What workers are and do.
mod broken;
mod caller;
mod journal;
mod part;
mod pipe;
mod roles;
mod trouble;

// What is done to them.
mod cast;
mod crew;
mod faults;
mod process;
mod scenarios;
mod stage;
mod target;

// What came of it.
mod audit;
mod claimed;
mod evidence;
mod finding;
mod floors;
mod ledger;
mod ran;
mod reacted;
mod resolver;
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
        return roles::play();
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
