//! Counters of store calls, by kind.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Call counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) leases: AtomicU64,
    /// Reads of streams, the feed, records and items.
    pub(super) reads: AtomicU64,
    /// Clock readings, renewals and adjustments.
    pub(super) other: AtomicU64,
}

/// The counts up to a moment, or between two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    commits: u64,
    leases: u64,
    reads: u64,
    other: u64,
}

/// The counts per run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Each {
    pub(crate) commits: f64,
    pub(crate) leases: f64,
    pub(crate) reads: f64,
    pub(crate) other: f64,
}

impl Counters {
    pub(super) fn calls(&self) -> Calls {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Calls {
            commits: of(&self.commits),
            leases: of(&self.leases),
            reads: of(&self.reads),
            other: of(&self.other),
        }
    }
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Calls {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            commits: self.commits - earlier.commits,
            leases: self.leases - earlier.leases,
            reads: self.reads - earlier.reads,
            other: self.other - earlier.other,
        }
    }

    pub(super) fn total(self) -> u64 {
        self.commits + self.leases + self.reads + self.other
    }

    #[allow(clippy::cast_precision_loss)] // never as many as 2^53 calls
    pub(crate) fn each(self, of: u64) -> Each {
        let each = |count: u64| count as f64 / of as f64;
        Each {
            commits: each(self.commits),
            leases: each(self.leases),
            reads: each(self.reads),
            other: each(self.other),
        }
    }
}

impl fmt::Display for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commits, leases, reads, other } = self;
        write!(
            f,
            "{commits:.2} commits, {leases:.2} leases, {reads:.2} reads, {other:.2} other calls"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_between_two_moments_is_shared_out() {
        let counters = Counters::default();
        let before = counters.calls();
        (0..7).for_each(|_| count(&counters.commits));
        count(&counters.reads);
        let calls = counters.calls().since(before);
        assert_eq!(calls.total(), 8);
        let said = "3.50 commits, 0.00 leases, 0.50 reads, 0.00 other calls";
        assert_eq!(calls.each(2).to_string(), said);
    }
}
