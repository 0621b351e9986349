//! Worker processes: this test binary, started again in a role.
//!
//! A worker prints lines on its standard output and takes orders, a line each, on its standard
//! input; a line printed before a kill is still read. Tests wait for another process by waiting for
//! a line: no test sleeps. The deadline is there so that a worker that hangs fails a test instead
//! of stopping the suite.

// Each test binary uses what it needs of this.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long the next line of a worker may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The argument that makes this binary a worker.
const WORKER: &str = "--tidelock-worker";

/// The role of a worker and its arguments.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) role: String,
    pub(crate) arguments: Vec<String>,
}

impl Part {
    /// The role of this process, if it is a worker.
    pub(crate) fn to_play() -> Option<Self> {
        let mut arguments = std::env::args().skip(1);
        if arguments.next().as_deref() != Some(WORKER) {
            return None;
        }
        let role = arguments.next().expect("a worker has a role");
        Some(Self { role, arguments: arguments.collect() })
    }

    /// The argument at this index.
    pub(crate) fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).unwrap_or_else(|| panic!("{} has an argument {at}", self.role))
    }

    /// The number at this index.
    pub(crate) fn number(&self, at: usize) -> u64 {
        self.argument(at).parse().expect("the argument is a number")
    }
}

/// Prints a line to the test that started this worker.
pub(crate) fn say(line: impl std::fmt::Display) {
    // In one piece, so that a kill never leaves half a line, and lines of several threads do not
    // mix.
    let line = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the test is there to listen");
}

/// Waits for the next order; none once the test has ended.
pub(crate) fn order() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).expect("orders can be read");
    (read > 0).then(|| line.trim_end().to_owned())
}

/// A process in a role; it is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    role: String,
    child: Child,
    orders: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    /// Starts this binary again, in this role.
    pub(crate) fn start(role: &str, arguments: &[&dyn AsRef<OsStr>]) -> Self {
        Self::start_in(&[], role, arguments)
    }

    /// Starts this binary again, with these variables in its environment.
    pub(crate) fn start_in(
        environment: &[(&str, &OsStr)],
        role: &str,
        arguments: &[&dyn AsRef<OsStr>],
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
        command.arg(WORKER).arg(role).args(arguments).envs(environment.iter().copied());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let orders = child.stdin.take().expect("its input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (said, lines) = mpsc::channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| said.send(line))
        });
        Self { role: role.to_owned(), child, orders, lines }
    }

    /// The next line; none once it has ended.
    pub(crate) fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("{} says nothing for {PATIENCE:?}", self.role)
            }
        }
    }

    /// The next line, which must begin with this word; returns the rest.
    pub(crate) fn hear(&self, word: &str) -> String {
        let line =
            self.line().unwrap_or_else(|| panic!("{} ended before it said {word:?}", self.role));
        let rest = line
            .strip_prefix(word)
            .unwrap_or_else(|| panic!("{} says {line:?}, not {word:?}", self.role));
        rest.trim_start().to_owned()
    }

    /// Gives an order.
    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}")
            .unwrap_or_else(|e| panic!("{} takes no orders: {e}", self.role));
    }

    /// Sends it a Unix signal.
    pub(crate) fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id fits");
        kill(Pid::from_raw(id), signal).expect("it can be sent a signal");
    }

    /// Kills it; returns the lines that it had printed.
    pub(crate) fn kill(self) -> Vec<String> {
        self.send(Signal::SIGKILL);
        self.rest()
    }

    /// Waits for its end, which must be successful; returns the remaining lines.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            lines.push(line);
        }
        let status = self.child.wait().expect("it can be waited for");
        assert!(status.success(), "{} failed: {status}; it had said {lines:#?}", self.role);
        lines
    }

    fn rest(&self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended long ago; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
