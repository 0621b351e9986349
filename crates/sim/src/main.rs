//! The command `tidelock-sim`: reads a history as JSON lines from its standard input and prints
//! what the checkers found in it.

use std::io;
use std::process::ExitCode;

use tidelock_sim::checkers;
use tidelock_sim::history::{Audit, History};

fn main() -> ExitCode {
    let history = match History::read(io::stdin().lock()) {
        Ok(history) => history,
        Err(e) => {
            eprintln!("the history cannot be read: {e}");
            return ExitCode::from(2);
        }
    };
    let report = checkers::check(&history, &Audit::default());
    print!("{report}");
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
