//! Rates: draws that are spread over time, judged by the store.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, When};
use crate::error::{Result, StoreError};

/// A draw on a rate limit, after the generic cell rate algorithm (GCRA), the exact form of a
/// leaky bucket.
///
/// The record holds the moment at which everything drawn so far will have been replenished. A draw
/// moves that moment into the future by its `cost`, and is refused if it would then lie further
/// ahead than `burst`. So at most `burst / cost` draws are possible at once and, in any span of
/// time, no more than that and one more for each `cost` that passes. There are no windows, and so
/// no edge between two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// The time that this draw takes to be replenished, in whole microseconds.
    pub cost: Duration,
    /// How far ahead the moment of replenishment may lie.
    pub burst: Duration,
}

impl Rate {
    /// Draws now, with the record's value. Returns when everything will have been replenished.
    ///
    /// # Errors
    /// When the draw will be possible, if it is not now.
    pub fn draw(self, full_at: i64, now: Timestamp) -> Result<Timestamp, Timestamp> {
        let cost = self.cost.as_micros() as i64;
        let burst = self.burst.as_micros() as i64;
        let drawn = full_at.max(now.micros()).saturating_add(cost);
        let possible_at = drawn.saturating_sub(burst);
        if possible_at > now.micros() {
            return Err(Timestamp::EPOCH.plus(Duration::from_micros(possible_at as u64)));
        }
        Ok(Timestamp::EPOCH.plus(Duration::from_micros(drawn as u64)))
    }

    pub(super) fn check(self) -> Result<()> {
        When::In(self.burst).check("burst of a rate")?;
        if self.cost > self.burst {
            return Err(StoreError::invalid(format!(
                "a draw that costs {:?} can never be made within a burst of {:?}",
                self.cost, self.burst
            )));
        }
        Ok(())
    }
}
