//! How writing goes lately: how many share a transaction, how long it takes, and what follows from
//! it.

use std::time::Duration;

/// While commits take no longer on average, callers may do theirs themselves. Waking a thread takes
/// a good part of this.
const QUICK: Duration = Duration::from_micros(500);
/// How many commits the average looks back on, roughly.
const MEMORY: u32 = 8;
/// What fraction of the time that the last group took may be spent on waiting for the next one to
/// gather.
const PATIENCE: u32 = 4;
/// And never more than this, however long the last group took.
const MOST_PATIENCE: Duration = Duration::from_millis(5);

/// The last group, and how long groups take on average.
#[derive(Debug, Default)]
pub(crate) struct GroupStats {
    calls: usize,
    took: Duration,
    average: Duration,
}

impl GroupStats {
    pub(crate) fn note(&mut self, calls: usize, took: Duration) {
        (self.calls, self.took) = (calls, took);
        self.average = (self.average * (MEMORY - 1) + took) / MEMORY;
    }

    /// Whether the last caller was alone, and the disk has been quick: then the next one may well
    /// be too.
    pub(crate) fn is_calm(&self) -> bool {
        self.calls == 1 && self.average <= QUICK
    }

    /// How many calls are worth waiting for, and for how long. A call that was alone waits for
    /// nobody.
    pub(crate) fn company(&self) -> Option<(usize, Duration)> {
        (self.calls > 1).then_some((self.calls, (self.took / PATIENCE).min(MOST_PATIENCE)))
    }
}
