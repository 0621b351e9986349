//! Poll tracking: distinguishes work that blocks its thread from work that waits.
//!
//! A future that waits can be dropped at its timeout. A future whose poll does not return cannot;
//! its lease can only be left to expire. So the start of the current poll is recorded.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The start of the current poll.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<Option<Instant>>);

/// A poll in progress.
struct Polling<'a>(&'a Polls);

impl Polls {
    /// Runs a future and records each poll.
    pub(super) async fn track<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            let _polling = self.begin();
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Returns by how much the current poll exceeds `limit`, if it does.
    pub(super) fn overdue(&self, limit: Duration) -> Option<Duration> {
        let started = *self.lock();
        started?.elapsed().checked_sub(limit)
    }

    fn begin(&self) -> Polling<'_> {
        *self.lock() = Some(Instant::now());
        Polling(self)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
