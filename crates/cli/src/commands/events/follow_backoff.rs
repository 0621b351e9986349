//! Waiting for a store that cannot be reached for a while.

use std::time::Duration;

use tidelock::RetryAdvice;
use tidelock::store::Result;

use crate::failure::Failure;
use crate::output::Output;

/// The first pause between two tries, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Of one follower.
#[derive(Debug, Default)]
pub(super) struct FollowBackoff {
    /// How long it waited last, while the store does not answer.
    waited: Option<Duration>,
}

impl FollowBackoff {
    /// The answer of the store. After a pause, nothing: it may answer if it is asked again.
    pub(super) async fn take<T>(
        &mut self,
        answer: Result<T>,
        out: &mut Output,
    ) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => {
                if self.waited.take().is_some() {
                    out.note("the store answers again: going on")?;
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
