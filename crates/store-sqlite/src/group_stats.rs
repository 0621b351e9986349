//! Group-commit statistics: recent group sizes and commit times, and the decisions based on them.

use std::time::Duration;

/// While commits take no longer on average, callers may write on their own thread. Waking a thread
/// takes a good part of this.
const FAST: Duration = Duration::from_micros(500);
/// The window of the moving average, in commits.
const WINDOW: u32 = 8;
/// The fraction of the last group's time that may be spent waiting for the next group to gather.
const GATHER_FRACTION: u32 = 4;
/// The longest wait, however long the last group took.
const LONGEST_GATHER: Duration = Duration::from_millis(5);

/// The last group's size, and the average time per group.
#[derive(Debug, Default)]
pub(crate) struct GroupStats {
    calls: usize,
    took: Duration,
    average: Duration,
}

impl GroupStats {
    pub(crate) fn note(&mut self, calls: usize, took: Duration) {
        (self.calls, self.took) = (calls, took);
        self.average = (self.average * (WINDOW - 1) + took) / WINDOW;
    }

    /// Whether the last call was alone and the disk was fast, so that the next call may write by
    /// itself.
    pub(crate) fn is_uncontended(&self) -> bool {
        self.calls == 1 && self.average <= FAST
    }

    /// How many calls to wait for, and for how long. A call that was alone does not wait.
    pub(crate) fn gather(&self) -> Option<(usize, Duration)> {
        (self.calls > 1).then_some((self.calls, (self.took / GATHER_FRACTION).min(LONGEST_GATHER)))
    }
}
