//! Polling for a fact about another process, which cannot notify us.
//!
//! The fact ends the wait; the deadline only turns a hanging server into a failure.

use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Longer than anything takes on a slow machine; recovery after a crash under load is the longest.
const DEADLINE: Duration = Duration::from_secs(120);

/// How often a fact is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Polls until there is a value, and returns it. `what` completes the sentence "timed out waiting
/// for …".
pub(crate) fn wait_for<T>(
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if begun.elapsed() > DEADLINE {
            return Err(Failure::new(format!(
                "timed out waiting for {what}, {} s",
                DEADLINE.as_secs()
            )));
        }
        thread::sleep(POLL_INTERVAL);
    }
}
