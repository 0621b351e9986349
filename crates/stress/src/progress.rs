//! What is going on, on standard error: a bar where a person looks at it, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::counts::Counts;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct Progress {
    /// None where nobody looks at a bar.
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar for a run that takes about so long.
    pub(crate) fn new(seconds: u64) -> Self {
        Self { bar: io::stderr().is_terminal().then(|| bar(seconds)) }
    }

    /// A line that stays.
    pub(crate) fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // With nobody to read it, the run goes on.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// The next round.
    pub(crate) fn begin(&self, scenario: &str) {
        match &self.bar {
            Some(bar) => bar.set_prefix(scenario.to_owned()),
            None => self.note(scenario),
        }
    }

    /// What the workers have done in this round. Too often for lines.
    pub(crate) fn show(&self, did: Counts) {
        if let Some(bar) = &self.bar {
            bar.set_position(bar.elapsed().as_secs());
            let (commits, leases) = (HumanCount(did.commits), HumanCount(did.leases));
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
    /// Also when a run fails: the message should not stand behind half a bar.
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
