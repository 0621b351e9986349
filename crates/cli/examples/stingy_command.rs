//! The `tidelock` command on stores whose pages are as small as they may be. Its tests run it in
//! the place of the command.

use std::process::ExitCode;

use tidelock_test_stage::{Stingy, stingy_seed};

fn main() -> ExitCode {
    tidelock_cli::run(|store| Stingy::over(store, stingy_seed().unwrap_or_default()))
}
