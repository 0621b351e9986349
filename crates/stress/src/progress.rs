//! Progress on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::counts::Counts;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct Progress {
    /// None without a terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for a run of about this duration.
    pub(crate) fn new(seconds: u64) -> Self {
        Self { bar: io::stderr().is_terminal().then(|| bar(seconds)) }
    }

    /// Prints a line that stays.
    pub(crate) fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // Without a reader the run continues.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Starts the next round.
    pub(crate) fn begin(&self, scenario: &str) {
        match &self.bar {
            Some(bar) => bar.set_prefix(scenario.to_owned()),
            None => self.note(scenario),
        }
    }

    /// Shows the progress of the round. Too frequent for lines.
    pub(crate) fn show(&self, counts: Counts) {
        if let Some(bar) = &self.bar {
            bar.set_position(bar.elapsed().as_secs());
            let (commits, leases) = (HumanCount(counts.commits), HumanCount(counts.leases));
            bar.set_message(format!("{commits} commits, {leases} leases"));
        }
    }

    /// Writes to standard output, which may be the same terminal.
    pub(crate) fn print(&self, lines: &[String]) -> io::Result<()> {
        let write = || lines.iter().try_for_each(|line| writeln!(io::stdout(), "{line}"));
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Progress {
    /// Also when a run fails: the message should not follow half a bar.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(seconds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:20}] {prefix}: {wide_msg}");
    let style = style.expect("the template is well formed").progress_chars("=> ");
    let bar = ProgressBar::new(seconds).with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}
