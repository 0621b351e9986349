//! Reproducible randomness.
//!
//! Every random test prints its seed; `TIDELOCK_SEED=<seed>` makes the same choices again. The
//! timing of real processes and the kernel is not replayed.

use tidelock_store::CommitId;

/// A small generator (splitmix64). It need not be good, only reproducible.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    /// The generator of one test, whose name is printed beside the seed.
    pub(crate) fn for_test(name: &str) -> Self {
        let seed = match std::env::var("TIDELOCK_SEED") {
            Ok(seed) => seed.parse().expect("TIDELOCK_SEED is a number"),
            Err(_) => fresh(),
        };
        println!("{name}: TIDELOCK_SEED={seed}");
        Self::seeded(seed)
    }

    /// The generator for this seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in this many times.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The last bytes of a fresh id are random, and short enough to type.
fn fresh() -> u64 {
    let id = CommitId::fresh();
    id.as_bytes()[11..].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}
