//! The commands, one file each: typed arguments in, lines out.

mod demo;

use crate::args::Command;
use crate::failure::Failure;
use crate::output::Output;

/// Carries out what was asked for.
pub(crate) async fn run(command: Command, out: &mut Output) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo::run(args, out).await,
    }
}
