//! Runs a command with a PostgreSQL server beside it: `tidelock-test-postgres COMMAND ARGS…`.
//!
//! The command finds the server's URL in `TIDELOCK_TEST_POSTGRES`. When it ends, so does the
//! server, and its exit code is ours. Interrupted or terminated, we pass that on and leave as the
//! command does.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use tidelock_test_postgres::{SHARED_URL, Server};

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let Some((program, args)) = words.split_first() else {
        eprintln!("usage: tidelock-test-postgres COMMAND ARGS…");
        return ExitCode::from(2);
    };
    match run(Command::new(program).args(args)) {
        Ok(status) => code_of(status),
        Err(failure) => {
            eprintln!("tidelock-test-postgres: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &mut Command) -> Result<ExitStatus, Box<dyn std::error::Error>> {
    let server = Server::start_shared()?;
    let mut child = command.env(SHARED_URL, server.url()).spawn()?;
    pass_signals_on(&child)?;
    Ok(child.wait()?)
}

/// Holds the signals that would end us, and has a thread give them to the child. Only once there is
/// a child: it would inherit the holding. Until then they end us, and the server's guardian does
/// the rest.
fn pass_signals_on(child: &Child) -> nix::Result<()> {
    let child =
        Pid::from_raw(i32::try_from(child.id()).expect("the kernel's own type for it is signed"));
    let signals: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // A child that has just ended has nothing to be told.
            let _passed = kill(child, signal);
        }
    });
    Ok(())
}

/// As a shell gives it: that of the command, or 128 and the signal that ended it.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
