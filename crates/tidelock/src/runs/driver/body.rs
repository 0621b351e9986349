//! The workflow function as a future, polled only after it was woken.
//!
//! This is the only way to tell whether the function waits for something outside of the context:
//! wake-ups are recorded, so that a future that yields, or wakes itself, does not count as waiting.

use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, CatchUnwind};
use futures_util::task::AtomicWaker;
use tidelock_store::{RawJson, Result};

use super::Sent;
use crate::runs::activation::{Activation, Outgoing};
use crate::runs::definition::BodyError;

/// What the function returned, or its panic.
pub(super) type Returned = Result<Result<RawJson, BodyError>, Box<dyn Any + Send>>;

/// The next event of a turn.
pub(super) enum Turn {
    /// The lease is lost.
    Lost,
    /// A commit has completed.
    Sent(Result<(Outgoing, Sent)>),
    /// The function wants entries written.
    Wants,
    /// The function has returned.
    Returned(Returned),
    /// The function waits, and no effect is in flight.
    Idle,
    /// A timer has fired.
    Late,
    /// There may be a signal.
    Hint,
    /// The function has made no progress for too long.
    Stalled,
    /// The worker is shutting down.
    Stopping,
}

/// The running function.
pub(super) struct Body<'a> {
    future: CatchUnwind<AssertUnwindSafe<BoxFuture<'a, Result<RawJson, BodyError>>>>,
    woken: Arc<Woken>,
}

#[derive(Debug)]
struct Woken {
    is: AtomicBool,
    driver: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is.store(true, Ordering::SeqCst);
        self.driver.wake();
    }
}

impl<'a> Body<'a> {
    pub(super) fn new(future: BoxFuture<'a, Result<RawJson, BodyError>>) -> Self {
        let woken = Woken { is: AtomicBool::new(true), driver: AtomicWaker::new() };
        Self { future: AssertUnwindSafe(future).catch_unwind(), woken: Arc::new(woken) }
    }

    /// Polls the function until the driver has something to do.
    pub(super) async fn turn(
        &mut self,
        activation: &Activation,
        resting: &mut bool,
        sending: bool,
    ) -> Turn {
        let waker = Waker::from(self.woken.clone());
        poll_fn(|cx| {
            self.woken.driver.register(cx.waker());
            if self.woken.is.swap(false, Ordering::SeqCst) {
                *resting = false;
                let future = &mut self.future;
                let polled = activation
                    .poll_function(&waker, || future.poll_unpin(&mut Context::from_waker(&waker)));
                if let Poll::Ready(returned) = polled {
                    return Poll::Ready(Turn::Returned(returned));
                }
                if self.woken.is.load(Ordering::SeqCst) {
                    // The function yielded, and so does this future.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            next(activation, *resting, sending)
        })
        .await
    }
}

fn next(activation: &Activation, resting: bool, sending: bool) -> Poll<Turn> {
    activation.replay(|replay| match replay.wants_write() {
        _ if sending => Poll::Pending,
        _ if replay.has_left() => Poll::Ready(Turn::Idle),
        true => Poll::Ready(Turn::Wants),
        false if !resting && replay.is_quiet() => Poll::Ready(Turn::Idle),
        false => Poll::Pending,
    })
}
