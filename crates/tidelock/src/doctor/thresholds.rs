//! How far the doctor looks, and how much it says.

use std::time::Duration;

use crate::worker::TIMEOUT;

/// How far to look, and how much to say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// How long something may wait before it counts as not moving.
    pub patience: Duration,
    /// How long something may be held without progress before it counts as hung. Twice what a
    /// handler has unless its options say otherwise; more, if some of them do.
    pub hung: Duration,
    /// How many findings of each kind are kept; the rest are counted.
    pub show: usize,
    /// How many work items are looked at, at most: of those that are blocked, of those that are
    /// held, and of the rest.
    pub scan: usize,
    /// How many open runs, the newest, are looked at one by one.
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
