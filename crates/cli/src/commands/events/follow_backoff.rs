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
                let (interrupted, pause) = self.failed();
                if interrupted {
                    out.note(&format!("{}: waiting for the store", error.context()))?;
                }
                tokio::time::sleep(pause).await;
                Ok(None)
            }
        }
    }

    /// Whether this failure begins an interruption, and the backoff after it.
    fn failed(&mut self) -> (bool, Duration) {
        let pause = self.waited.map_or(PAUSES.0, |waited| (waited * 2).min(PAUSES.1));
        (self.waited.replace(pause).is_none(), pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CMD-4. The first failed attempt is reported, and none of those that follow it.
    #[tokio::test]
    async fn an_interruption_is_reported_once() {
        let mut backoff = FollowBackoff::default();
        let mut out = Output::stdout(true);
        for _ in 0..2 {
            let failures: Vec<_> = (0..10).map(|_| backoff.failed()).collect();
            assert_eq!(failures[0], (true, PAUSES.0));
            assert!(failures[1..].iter().all(|(interrupted, _)| !interrupted), "{failures:?}");
            assert_eq!(failures[9].1, PAUSES.1, "the backoff grows up to its bound");
            assert_eq!(backoff.take(Ok(7), &mut out).await.unwrap(), Some(7));
        }
    }
}
