//! How long one call of a user's code may take before it counts as hung.

use std::time::Duration;

use crate::doctor::display::length;

/// The time that a handler, a batch, an attempt at a step or the work on an item has, unless its
/// options say otherwise.
///
/// Five minutes are longer than a call takes that will still end, and short enough that a slot
/// which is lost to one that will not is soon free again.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// Drives this for so long at most, then drops it and gives nothing.
pub(crate) async fn within<T>(timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(timeout, work).await.ok()
}

/// Says that something was dropped after so long.
pub(crate) fn timed_out(timeout: Duration) -> String {
    format!("timed out after {}", length(timeout))
}
