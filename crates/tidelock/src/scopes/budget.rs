//! How long a mutation may take, its wait for a turn included.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

/// How long a mutation may take, unless something else is asked for.
pub(crate) const DEFAULT: Duration = Duration::from_secs(30);

/// The time of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) long: Option<Duration>,
    pub(crate) until: Option<Instant>,
}

impl Budget {
    /// Begins now. A time too long to be counted is as good as none.
    pub(crate) fn begin(long: Option<Duration>) -> Self {
        let until = long.and_then(|long| Instant::now().checked_add(long));
        Self { long, until }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// What is left of it.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// What comes of it, unless it takes too long. What is there at once costs no timer.
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
