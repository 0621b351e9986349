//! This program once more, as a process of its own: it is told lines, and answers with lines.
//!
//! What the lines mean is between whoever starts it and the command that it runs.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdout, Command, Stdio};

use crate::failure::Failure;
use crate::report::write_line;

/// What a child says first, once it could begin.
const READY: &str = "ready";

/// A child that could begin; killed when it is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts one with these arguments, tells it the first line, and waits until it could begin.
    /// What nobody else on the machine should read belongs into the line: arguments can be seen by
    /// all.
    pub(crate) fn start(args: &[String], first: &str) -> Result<Self, Failure> {
        let mut process = Command::new(env::current_exe()?)
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

    /// What the machine knows it by.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.process.stdin.as_mut().expect("it was asked for");
        Ok(input.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Waits for the next line; an empty one if the child has ended.
    pub(crate) fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says, in the child, that it could begin.
pub(crate) fn say_ready() -> io::Result<()> {
    write_line(READY)
}

/// Waits, in the child, for the next line; none if there will be no more.
pub(crate) fn be_told() -> io::Result<Option<String>> {
    let mut line = String::new();
    let bytes = io::stdin().read_line(&mut line)?;
    Ok((bytes > 0).then(|| line.trim_end().to_owned()))
}
