//! Moments so far ahead that they cannot be counted are as good as never.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than any process runs, and short enough to be added to any moment of one.
const FAR: Duration = Duration::from_secs(1 << 30);

/// This long from now, or as far ahead as can be counted.
pub(crate) fn after(long: Duration) -> Instant {
    later(Instant::now(), long)
}

/// This long after a moment, or as far ahead as can be counted.
pub(crate) fn later(moment: Instant, long: Duration) -> Instant {
    moment.checked_add(long).unwrap_or_else(|| moment + FAR)
}
