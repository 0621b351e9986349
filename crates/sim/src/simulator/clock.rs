//! The calendar of the simulated store: the runtime's virtual time, and jumps.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidelock::Timestamp;
use tidelock::store::Clock;
use tokio::time::Instant;

/// The start of the calendar: 2030-01-01.
const START: i64 = 1_893_456_000_000_000;

#[derive(Debug)]
pub(crate) struct SimulatedClock {
    began: Instant,
    /// Seconds by which the calendar is ahead of the virtual time.
    ahead: Mutex<i64>,
}

impl SimulatedClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), ahead: Mutex::new(0) }
    }

    /// Sets the calendar forward, or back.
    pub(crate) fn jump(&self, seconds: i64) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) += seconds;
    }
}

impl Clock for SimulatedClock {
    fn wall(&self) -> Timestamp {
        let ahead = *self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(START + ahead * 1_000_000 + elapsed)
            .expect("a simulation is shorter than a century")
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
