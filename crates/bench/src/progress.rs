//! Progress on standard error: a bar on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Progress {
    /// None without a terminal.
    bar: Option<ProgressBar>,
    cases: usize,
    /// Of each case.
    steps: u64,
    begun: Cell<u64>,
    current: String,
}

impl Progress {
    pub(crate) fn new(cases: usize, steps: u64) -> Self {
        let bar = io::stderr().is_terminal().then(|| bar(cases as u64 * steps));
        Self { bar, cases, steps, begun: Cell::new(0), current: String::new() }
    }

    /// Prints a line that stays.
    pub(crate) fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // Without a reader the run continues.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// The next case.
    pub(crate) fn begin(&mut self, name: &str) {
        let before = self.begun.replace(self.begun.get() + 1);
        self.current = name.to_owned();
        match &self.bar {
            Some(bar) => {
                bar.set_position(before * self.steps);
                bar.set_message(self.current.clone());
            }
            None => self.note(&format!("[{}/{}] {}", before + 1, self.cases, self.current)),
        }
    }

    /// The next step of a case. Too frequent for lines.
    pub(crate) fn step(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
            bar.set_message(format!("{}: {what}", self.current));
        }
    }

    /// The progress of filling a large store.
    pub(crate) fn filled(&self, done: usize, of: usize, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}: {done} of {of} {what}", self.current)),
            None if done == of && of >= 100_000 => self.note(&format!("  {of} {what}")),
            None => {}
        }
    }

    /// Writes to standard output, which may be the same terminal.
    pub(crate) fn print(&self, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Progress {
    /// Also when a workload fails: the message should not follow half a bar.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:20}] {wide_msg}");
    ProgressBar::new(steps)
        .with_style(style.expect("the template is well formed").progress_chars("=> "))
}
