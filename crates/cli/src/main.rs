//! The `tidelock` command.
//!
//! What was typed becomes typed arguments (`args`), those are carried out (`commands`), and what happened goes to
//! standard output. What went wrong goes to standard error, as what happened, to which thing and what to do; the
//! exit code is 0 if all went well, 1 if something failed and 2 if what was asked for makes no sense.

mod args;
mod commands;
mod failure;
mod output;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    // Clap ends the process itself when there is nothing to carry out: 0 after help, 2 after a bad argument.
    let args = Args::parse();
    match carry_out(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}

fn carry_out(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(commands::run(args.command, &mut Output::stdout()))
}
