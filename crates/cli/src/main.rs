//! The `tidelock` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidelock_cli::run(|store| store)
}
