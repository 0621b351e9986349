//! The `tidelock` command, as it is installed.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidelock_cli::run(|store| store)
}
