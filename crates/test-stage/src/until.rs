//! Waiting for a fact, and never for a time.

use std::time::Duration;

use tokio::time::Instant;

/// Against hanging only; no test is slower for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a fact is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// Looks until this is so. `what` completes the sentence "waited in vain until …".
pub async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(GLANCE).await;
    }
}
