//! Deterministic random numbers.
//!
//! A run prints its seed, and the same seed makes the same choices again: streams, faults, moments.
//! The behavior of the kernel, the network and the database is not replayed.

use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Rng(fastrand::Rng);

impl Rng {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// True once in so many calls, on average.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A duration in this range.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }
}

/// A seed that is short enough to type.
pub(crate) fn fresh_seed() -> u64 {
    fastrand::u32(..).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_reproduces_the_same_numbers() {
        let throws = |seed| {
            let mut rng = Rng::seeded(seed);
            (0..50).map(|_| (rng.below(6), rng.millis(10, 20))).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
        assert!(throws(7).iter().all(|(number, _)| *number < 6));
    }
}
