//! `tidelock completions`: prints a shell completion script.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::failure::Result;
use crate::output::Output;

pub(crate) fn run(shell: Shell, out: &mut Output) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "tidelock", &mut script);
    Ok(out.script(&script)?)
}
