//! The `tidelock` command.
//!
//! The command line becomes typed arguments (`args`), which are executed (`commands`) on a store
//! (`store_url`). Results go to standard output, messages to standard error. An error says what
//! happened, to what, and what to do; the exit codes are in `exit_status`.

mod args;
mod commands;
mod exit_status;
mod failure;
mod log;
mod output;
mod progress;
mod selection;
mod store_url;
mod transfer;

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tidelock::store::Store;

use crate::args::{Args, ImportReactions};
use crate::exit_status::ExitStatus;
use crate::failure::Result;
use crate::output::Output;
use crate::progress::Progress;
use crate::transfer::{Import, Source};

/// A decorator of every store that a command opens.
pub type Layer = fn(Arc<dyn Store>) -> Arc<dyn Store>;

/// Runs the command line on stores with this decorator; returns the exit code.
pub fn run(layer: Layer) -> ExitCode {
    let args = Args::of_process();
    match carry_out(args, layer) {
        Ok(ending) => ExitCode::from(ending.code()),
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.ending().code())
        }
    }
}

/// `tidelock export`, of an open store; returns whether nothing changed meanwhile. For simulations.
#[doc(hidden)]
pub async fn export(
    store: &Arc<dyn Store>,
    file: &Path,
) -> std::result::Result<bool, Box<dyn Error>> {
    let progress = Progress::counting("events");
    Ok(transfer::export(store, File::create(file)?, &progress).await?.settled)
}

/// `tidelock import` with `--reactions continue`, into an open store. For simulations.
#[doc(hidden)]
pub async fn import(
    file: &Path,
    store: &Arc<dyn Store>,
) -> std::result::Result<(), Box<dyn Error>> {
    let source = Source::named(file)?;
    Import::check(&source, ImportReactions::Continue)?.into(store).await?;
    Ok(())
}

fn carry_out(args: Args, layer: Layer) -> Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut out = Output::stdout(args.json);
    let ending = runtime.block_on(commands::run(args, layer, &mut out))?;
    out.flush()?;
    Ok(ending)
}
