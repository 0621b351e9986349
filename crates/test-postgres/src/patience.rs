//! Waiting for a fact about another process, which has no way to tell us.
//!
//! The fact decides when the wait is over; the deadline only turns a server that hangs into a
//! failure that says so.

use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Longer than anything takes on a machine that is merely slow; a recovery after a crash under load
/// is the longest.
const DEADLINE: Duration = Duration::from_secs(120);

/// How often a fact is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Looks until there is something to see, and gives it back. `what` completes the sentence "waited
/// in vain for …".
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
                "waited in vain for {what}, {} s",
                DEADLINE.as_secs()
            )));
        }
        thread::sleep(GLANCE);
    }
}
