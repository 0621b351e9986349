//! Timeouts of user code.
//!
//! A future that waits is dropped at its timeout. One whose poll does not return cannot be dropped;
//! its lease can only be left to expire. So the start of the current poll is recorded.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

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
