//! A child process of this program, controlled by a line protocol.
//!
//! The lines are defined by the command that it runs.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use crate::failure::Failure;
use crate::report::write_line;

/// The first line of a child, once it is ready.
const READY: &str = "ready";

/// A ready child; killed when it is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a child with these arguments, sends it the first line, and waits until it is ready.
    /// Secrets belong into the line: other users can see arguments.
    pub(crate) fn start(args: &[String], first: &str) -> Result<Self, Failure> {
        Self::start_program(&env::current_exe()?, args, first)
    }

    /// Starts a child that is another program, with the same first lines.
    pub(crate) fn start_program(
        program: &Path,
        args: &[String],
        first: &str,
    ) -> Result<Self, Failure> {
        let mut process = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(process.stdout.take().expect("it was asked for"));
        let mut child = Self { process, output };
        child.tell(first)?;
        match child.hear()?.as_str() {
            READY => Ok(child),
            _ => Err(Failure::Answer("a process ended before it began".to_owned())),
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.process.stdin.as_mut().expect("it was asked for");
        Ok(input.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Waits for the next line; empty if the child has ended.
    pub(crate) fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reports, in the child, that it is ready.
pub(crate) fn say_ready() -> io::Result<()> {
    write_line(READY)
}

/// Waits, in the child, for the next line; none at the end of input.
pub(crate) fn be_told() -> io::Result<Option<String>> {
    let mut line = String::new();
    let bytes = io::stdin().read_line(&mut line)?;
    Ok((bytes > 0).then(|| line.trim_end().to_owned()))
}
