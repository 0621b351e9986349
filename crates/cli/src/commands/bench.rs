//! `tidelock bench` and `tidelock stress`: run separate programs.
//!
//! They are built separately, so that the operators' command does not include them.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::args::ForwardedArgs;
use crate::failure::{Failure, Result};

/// Replaces this process with the other program; returns only on failure.
pub(crate) fn run(name: &str, passed: &ForwardedArgs, store: Option<&str>) -> Result<()> {
    if store.is_some() {
        return Err(Failure::usage(
            format!("tidelock {name} takes the arguments of tidelock-{name}"),
            format!("tidelock {name} --help, with nothing before {name}"),
        ));
    }
    let program = beside_this_one(&format!("tidelock-{name}"));
    let error = Command::new(&program).args(&passed.arguments).exec();
    Err(Failure::failed(
        format!("cannot run {:?}: {error}", program.display()),
        format!("cargo build --release -p tidelock-{name}, which puts it beside this program"),
    ))
}

/// The program beside this one, else the one in `PATH`.
fn beside_this_one(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(name))
}
