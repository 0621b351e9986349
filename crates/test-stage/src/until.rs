//! Waiting for a fact, and never for a time.

use std::time::Duration;

use tokio::time::Instant;

/// Only against hanging; no test is slower for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a fact is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Polls until the condition holds. `what` completes the sentence "timed out waiting until …".
pub async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "timed out waiting until {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
