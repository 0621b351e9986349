//! Time budget of a mutation, including its wait in the queue.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

/// The default budget.
pub(crate) const DEFAULT: Duration = Duration::from_secs(30);

/// The time budget of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) limit: Option<Duration>,
    pub(crate) until: Option<Instant>,
}

impl Budget {
    /// Starts the budget now. A duration too long to represent means no limit.
    pub(crate) fn begin(limit: Option<Duration>) -> Self {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { limit, until }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Returns the remaining time.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Waits for the future within the budget; `None` when it is exceeded. A future that is ready
    /// at the first poll costs no timer.
    pub(crate) async fn bound<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        if let Poll::Ready(output) =
            poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
        {
            return Some(output);
        }
        match self.until {
            Some(until) => tokio::time::timeout_at(until, future).await.ok(),
            None => Some(future.await),
        }
    }
}
