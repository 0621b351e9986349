//! `tidelock bench` and `tidelock stress`: the programs of their own that do it.
//!
//! They measure and injure; they are built apart, so that whoever operates a store does not carry
//! them around.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::args::Passed;
use crate::failure::Failure;

/// Becomes the other program; returns only if it cannot.
pub(crate) fn run(name: &str, passed: &Passed, store: Option<&str>) -> Result<(), Failure> {
    if store.is_some() {
        return Err(Failure::usage(
            format!("tidelock {name} takes its arguments as tidelock-{name} has them"),
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

/// The program beside this one, else wherever the shell would find it.
fn beside_this_one(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(name))
}
