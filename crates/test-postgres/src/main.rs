//! Runs a command with a PostgreSQL server: `tidelock-test-postgres COMMAND ARGS…`.
//!
//! The command finds the server's URL in `TIDELOCK_TEST_POSTGRES`. When it ends, so does the
//! server, and its exit code is returned. Signals are passed on to the command.

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

/// Blocks the termination signals, and passes them to the child from a thread. Only once there is a
/// child, because it would inherit the blocked signals. Until then they end this process, and the
/// server's guardian cleans up.
fn pass_signals_on(child: &Child) -> nix::Result<()> {
    let child =
        Pid::from_raw(i32::try_from(child.id()).expect("the kernel's own type for it is signed"));
    let signals: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // The child may have just ended.
            let _passed = kill(child, signal);
        }
    });
    Ok(())
}

/// The exit code of the command, or 128 plus the signal that ended it, as in a shell.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
