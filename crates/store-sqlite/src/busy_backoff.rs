//! Waiting for another process to let go of the file.
//!
//! SQLite's own waiting sleeps longer and longer in fixed steps, so that whoever came last waits
//! least. These pauses stay short and differ, so that several writers share the file fairly.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(2);

/// Pauses that add up to at most a budget.
#[derive(Debug)]
pub(crate) struct BusyBackoff {
    started: Instant,
    budget: Duration,
    next: Duration,
}

impl BusyBackoff {
    pub(crate) fn new(budget: Duration) -> Self {
        Self { started: Instant::now(), budget, next: SHORTEST }
    }

    /// Waits a little; says whether there was time left to.
    pub(crate) fn wait(&mut self) -> bool {
        let passed = self.started.elapsed();
        if passed >= self.budget {
            return false;
        }
        // The clock's lowest digits are all the randomness that is needed to fall out of step.
        let jitter = u64::from(passed.subsec_nanos()) % 1_000;
        thread::sleep(self.next.mul_f64(0.5 + jitter as f64 / 1_000.0));
        self.next = (self.next * 2).min(LONGEST);
        true
    }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
