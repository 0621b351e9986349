//! Progress counters, for the display while a round runs. The final figures come from the journals.

use std::ops::Add;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Commits acknowledged.
    pub(crate) commits: u64,
    pub(crate) leases: u64,
    /// Commits whose outcome was unknown for a while.
    pub(crate) doubts: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            commits: self.commits + other.commits,
            leases: self.leases + other.leases,
            doubts: self.doubts + other.doubts,
        }
    }
}
