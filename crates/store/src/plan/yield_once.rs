//! Cooperative yielding: lets other tasks of the thread run.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that yields to the runtime once, on any runtime.
///
/// A store that answers without ever waiting would otherwise keep the caller's thread for as long
/// as the caller has something to ask.
#[derive(Debug, Default)]
pub struct YieldOnce {
    yielded: bool,
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
