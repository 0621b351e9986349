//! Thresholds and scan limits of the doctor.

use std::time::Duration;

use crate::worker::TIMEOUT;

/// Thresholds and scan limits of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// How long an item may wait before it counts as stuck.
    pub patience: Duration,
    /// How long an item may be held without progress before it counts as hung.
    ///
    /// The default is twice the default timeout of a handler. Increase it if handlers have longer
    /// timeouts.
    pub hung: Duration,
    /// How many findings of each kind are kept. The rest are counted.
    pub show: usize,
    /// How many work items are read at most, each for the blocked, the held and the remaining ones.
    pub scan: usize,
    /// How many open runs, newest first, are read one by one.
    pub runs: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(30),
            hung: 2 * TIMEOUT,
            show: 10,
            scan: 100_000,
            runs: 200,
        }
    }
}
