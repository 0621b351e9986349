//! Timeouts of user code.

use std::time::Duration;

use crate::doctor::display::length;

/// The default timeout of a handler, a batch, an attempt at a step, or the work on an item.
///
/// Five minutes is longer than almost any call that will complete, and short enough to free the
/// slot of one that will not.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// Runs a future with a timeout. Returns `None` if it was dropped.
pub(crate) async fn within<T>(timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(timeout, work).await.ok()
}

/// The error message of a timeout.
pub(crate) fn timed_out(timeout: Duration) -> String {
    format!("timed out after {}", length(timeout))
}
