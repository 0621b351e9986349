//! Tells work that blocks its thread from work that waits.
//!
//! A future that waits can be dropped when its time is over. One whose poll never returns cannot;
//! all that can be done is to let its lease run out. So the beginning of the poll that is under way
//! is noted.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When the poll that is under way began.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<Option<Instant>>);

/// A poll that is under way.
struct Polling<'a>(&'a Polls);

impl Polls {
    /// Drives this, and notes each poll.
    pub(super) async fn note<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            let _polling = self.begin();
            work.as_mut().poll(cx)
        })
        .await
    }

    /// How much longer than this the poll that is under way takes already; nothing if it does not.
    pub(super) fn overdue(&self, limit: Duration) -> Option<Duration> {
        let begun = *self.lock();
        begun?.elapsed().checked_sub(limit)
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
