//! Random numbers from a seed: the only source of chance in a simulation.

use std::time::Duration;

/// A generator. Its forks draw independently, so that what one part of a simulation draws changes
/// nothing for the others.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    seed: u64,
    numbers: fastrand::Rng,
}

impl Rng {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { seed, numbers: fastrand::Rng::with_seed(seed) }
    }

    /// The generator of a part, named by a number.
    pub(crate) fn fork(&self, part: u64) -> Self {
        let mixed = (self.seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23);
        Self::seeded(mixed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.numbers.u64(..)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.numbers.u64(..end.max(1))
    }

    /// Whether something happens that happens so often in ten thousand times.
    pub(crate) fn happens(&mut self, in_ten_thousand: u32) -> bool {
        in_ten_thousand > 0 && self.below(10_000) < u64::from(in_ten_thousand)
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A duration in this range.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.numbers.usize(..of.len())]
    }
}
