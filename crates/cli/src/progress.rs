//! A progress bar on standard error, if that is a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// An optional progress bar.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress without a known total.
    pub(crate) fn counting(what: &'static str) -> Self {
        Self::new(None, what)
    }

    /// Progress with a known total.
    pub(crate) fn of(total: u64, what: &'static str) -> Self {
        Self::new(Some(total), what)
    }

    fn new(total: Option<u64>, what: &'static str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let template = match total {
                Some(_) => {
                    "{elapsed_precise} [{bar:30}] {human_pos} of {human_len} {prefix}, {eta} left"
                }
                None => "{elapsed_precise} {spinner} {human_pos} {prefix}, {per_sec}",
            };
            let style =
                ProgressStyle::with_template(template).expect("the template is well formed");
            let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            bar.with_style(style.progress_chars("=> ")).with_prefix(what)
        });
        Self { bar }
    }

    pub(crate) fn moved(&self, by: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(by);
        }
    }
}

impl Drop for Progress {
    /// Also when the work fails: the message should not follow half a bar.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
