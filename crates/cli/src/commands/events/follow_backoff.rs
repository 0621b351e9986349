//! Backoff while the store is unavailable.

use std::time::Duration;

use tidelock::store::{RetryAdvice, StoreError};

use crate::failure::Result;
use crate::output::Output;

/// The first backoff, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The backoff of one follower.
#[derive(Debug, Default)]
pub(super) struct FollowBackoff {
    /// The last backoff, while the store is unavailable.
    waited: Option<Duration>,
}

impl FollowBackoff {
    /// The store's response. `None` after a backoff: try again.
    pub(super) async fn take<T>(
        &mut self,
        answer: Result<T, StoreError>,
        out: &mut Output,
    ) -> Result<Option<T>> {
        match answer {
            Ok(answer) => {
                if self.waited.take().is_some() {
                    out.note("the store is available again: continuing")?;
                }
                Ok(Some(answer))
            }
            Err(error) if error.advice() == RetryAdvice::Never => Err(error.into()),
            Err(error) => {
                if self.waited.is_none() {
                    out.note(&format!("{}: waiting for the store", error.context()))?;
                }
                let pause = self.waited.map_or(PAUSES.0, |waited| (waited * 2).min(PAUSES.1));
                self.waited = Some(pause);
                tokio::time::sleep(pause).await;
                Ok(None)
            }
        }
    }
}
