//! The runtime's clock as the store's: where the runtime's time is paused, simulated time passes
//! for both.

use std::time::Duration;

use tidelock_store::{Clock, ManualClock, Timestamp};
use tokio::time::Instant;

/// A clock that begins in 2030 and follows the runtime's.
#[derive(Debug)]
pub(super) struct RuntimeClock {
    began: Instant,
    start: Timestamp,
}

impl RuntimeClock {
    /// A clock that begins now.
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), start: ManualClock::default().wall() }
    }

    /// Whether the runtime's time is paused: then it stands still while a task runs.
    pub(super) fn is_paused() -> bool {
        let (runtime, machine) = (Instant::now(), std::time::Instant::now());
        while machine.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
        runtime.elapsed().is_zero()
    }
}

impl Clock for RuntimeClock {
    fn wall(&self) -> Timestamp {
        self.start.plus(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
