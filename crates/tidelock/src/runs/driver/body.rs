//! The function of a workflow as a future, polled only when it was woken.
//!
//! Whether the function waits for something that only it knows of can be told no other way: what it
//! was woken by is noted, so that a future that yields, or that wakes itself, is not taken for one
//! that waits.

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

use super::{Batch, Sent};
use crate::runs::activation::Activation;
use crate::runs::workflow::BodyError;

/// What the function returned, or what it panicked with.
pub(super) type Returned = Result<Result<RawJson, BodyError>, Box<dyn Any + Send>>;

/// What happens next in a turn.
pub(super) enum Turn {
    /// The lease is somebody else's.
    Lost,
    /// The store has answered.
    Sent(Result<(Batch, Sent)>),
    /// The function wants something written.
    Wants,
    /// The function has returned.
    Returned(Returned),
    /// The function waits, and nothing of it runs.
    Idle,
    /// A moment has come that something waited for.
    Late,
    /// There may be a signal.
    Hint,
    /// The function has not moved for as long as it may.
    Stalled,
    /// The worker is being shut down.
    Stopping,
}

/// The function at work.
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

    /// Polls it until there is something for the driver to do.
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
                if let Poll::Ready(returned) =
                    self.future.poll_unpin(&mut Context::from_waker(&waker))
                {
                    return Poll::Ready(Turn::Returned(returned));
                }
                if self.woken.is.load(Ordering::SeqCst) {
                    // It yielded, and so does this.
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
    let state = activation.state();
    match state.queue.is_wanted() {
        _ if sending => Poll::Pending,
        _ if state.exit.is_some() => Poll::Ready(Turn::Idle),
        true => Poll::Ready(Turn::Wants),
        false if !resting && state.is_quiet() => Poll::Ready(Turn::Idle),
        false => Poll::Pending,
    }
}
