//! What can be typed, as types.

use clap::{Parser, Subcommand};

/// Correct concurrency for stateful services: five patterns over one store.
#[derive(Debug, Parser)]
#[command(name = "tidelock", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell a short story that shows what the store promises
    ///
    /// A line per thing that happens. Each scene reads back from the store what it claims; if a claim is not so, the
    /// exit code is 1.
    Demo(DemoArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Store to play on, such as memory: or sqlite:PATH [default: a new SQLite file, removed afterwards]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}
