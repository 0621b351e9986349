//! Busy backoff: waits for another process to release the file.
//!
//! SQLite's own busy handler sleeps longer and longer in fixed steps, so that the last to arrive
//! waits least. These pauses stay short and have jitter, so that several writers share the file
//! fairly.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(2);

/// Pauses within a total time budget.
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

    /// Waits a little; returns whether there was time left.
    pub(crate) fn wait(&mut self) -> bool {
        let passed = self.started.elapsed();
        if passed >= self.budget {
            return false;
        }
        // The clock's lowest digits are random enough to get out of step.
        let jitter = u64::from(passed.subsec_nanos()) % 1_000;
        thread::sleep(self.next.mul_f64(0.5 + jitter as f64 / 1_000.0));
        self.next = (self.next * 2).min(LONGEST);
        true
    }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
