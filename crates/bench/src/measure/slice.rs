//! The operations of one or more slices, and their figures.

use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Slice {
    pub(crate) ops: u64,
    pub(crate) elapsed: Duration,
    /// The time of each call, where it is known.
    pub(crate) times: Vec<Duration>,
}

/// The figures of a side.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) ops_per_s: f64,
    /// The time of one call; half of them took no longer.
    pub(crate) p50: Duration,
    /// The time of one call; ninety-nine in a hundred took no longer.
    pub(crate) p99: Duration,
}

impl Slice {
    pub(crate) fn add(&mut self, next: Self) {
        self.ops += next.ops;
        self.elapsed += next.elapsed;
        self.times.extend(next.times);
    }

    #[allow(clippy::cast_precision_loss)] // never as many as 2^53 operations
    pub(crate) fn figures(mut self) -> Figures {
        self.times.sort_unstable();
        Figures {
            ops_per_s: self.ops as f64 / self.elapsed.as_secs_f64(),
            p50: percentile(&self.times, 50),
            p99: percentile(&self.times, 99),
        }
    }
}

/// The percentile of sorted times.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Duration::from_millis(100));
        assert_eq!(percentile(&times, 99), Duration::from_millis(198));
        assert_eq!(percentile(&times[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
