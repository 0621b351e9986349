//! The `tidelock` command.
//!
//! What was typed becomes typed arguments (`args`), those are carried out (`commands`) on the store
//! that is meant (`place`), and what was asked for goes to standard output. What else there is to
//! say goes to standard error. What went wrong is said as what happened, to which thing and what to
//! do; the exit code is one of those in `ending`.

mod args;
mod commands;
mod ending;
mod failure;
mod log;
mod output;
mod place;
mod progress;
mod selection;
mod transfer;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tidelock::Store;

use crate::args::Args;
use crate::ending::ExitStatus;
use crate::failure::Failure;
use crate::output::Output;

/// What is put in front of every store that a command opens.
pub type Layer = fn(Arc<dyn Store>) -> Arc<dyn Store>;

/// Carries out what the command line says, on stores with this in front of them; gives the exit
/// code.
pub fn run(layer: Layer) -> ExitCode {
    // Clap ends the process itself when there is nothing to carry out: 0 after help, 2 after a bad
    // argument.
    let args = Args::parse();
    match carry_out(args, layer) {
        Ok(ending) => ExitCode::from(ending.code()),
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.ending().code())
        }
    }
}

fn carry_out(args: Args, layer: Layer) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut out = Output::stdout(args.json);
    let ending = runtime.block_on(commands::run(args, layer, &mut out))?;
    out.flush()?;
    Ok(ending)
}
