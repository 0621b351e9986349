//! Poll interval: how often a worker polls without a change hint.

use std::time::Duration;

/// The time between two polls of one queue.
///
/// It is at least `least` and grows with the number of queues, so that the total rate stays low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollInterval {
    /// The minimum interval, however few queues there are.
    pub least: Duration,
    /// The interval added by each queue.
    pub per_queue: Duration,
}

impl Default for PollInterval {
    /// At most four polls per second over all queues, and at most one per queue.
    fn default() -> Self {
        Self { least: Duration::from_secs(1), per_queue: Duration::from_millis(250) }
    }
}

impl PollInterval {
    /// Returns the interval of each queue when this many are options.
    pub fn over(self, queues: usize) -> Duration {
        let queues = u32::try_from(queues).unwrap_or(u32::MAX);
        self.least.max(self.per_queue.saturating_mul(queues))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_queues_are_polled_more_slowly_each() {
        let pace = PollInterval::default();
        assert_eq!(pace.over(1), Duration::from_secs(1));
        assert_eq!(pace.over(400), Duration::from_secs(100));
        assert_eq!(pace.over(usize::MAX), Duration::from_millis(250) * u32::MAX);
    }
}
