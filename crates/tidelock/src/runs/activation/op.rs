//! One operation of a run, from its request to its end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use futures_util::future::pending;
use tidelock_store::{Timestamp, limits};
use tokio::sync::oneshot;

use super::{Activation, Landing, LandingEnd, State};
use crate::runs::StepName;
use crate::runs::history::Entry;
use crate::runs::replay::{End, Kind, Record};
use crate::staging::Staged;

/// A requested operation. Dropping it before its end is delivered abandons it.
#[derive(Debug)]
pub(crate) struct Op<'a> {
    activation: &'a Activation,
    at: usize,
}

/// What completed a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The awaited condition.
    Ready,
    /// The timeout.
    Late,
    /// The run is being cancelled.
    Cancelled,
}

impl Activation {
    /// Requests the operation of this name. Never completes if the name is used twice or recorded
    /// as another kind.
    pub(crate) async fn ask(&self, name: &StepName, kind: Kind) -> Op<'_> {
        self.inside().await;
        let asked = self.state().ask(name, kind);
        match asked {
            Some(at) => Op { activation: self, at },
            None => pending().await,
        }
    }
}

impl Op<'_> {
    /// Its recorded state.
    pub(crate) fn record(&self) -> Record {
        self.activation.state().past.records[self.at].clone()
    }

    /// Whether it is recorded, or will be.
    pub(crate) fn is_recorded(&self) -> bool {
        self.activation.state().cursor.live[self.at].recorded
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.activation.state().past.records[self.at].end.is_some()
    }

    /// Waits until replay has consumed the recorded history.
    pub(crate) async fn after_replay(&self) {
        self.poll(|cx| {
            let mut state = self.activation.state();
            if !state.cursor.is_replay() {
                return Poll::Ready(());
            }
            let record = &state.past.records[self.at];
            let asked = format!("{} {:?}", record.kind, record.name.as_str());
            state.held.get_or_insert(asked);
            state.wait_at(self.at, cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Waits until an effect may start: not while the worker shuts down.
    pub(crate) async fn may_begin(&self) {
        self.poll(|cx| {
            if !self.activation.task.stopping().is_cancelled() {
                return Poll::Ready(());
            }
            let mut state = self.activation.state();
            state.stopped = true;
            state.wait_at(self.at, cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Waits until all earlier entries are durable: a replay must not decide differently after an
    /// effect.
    pub(crate) async fn written(&self) {
        let newest = self.activation.state().queue.newest();
        self.poll(|cx| {
            let mut state = self.activation.state();
            if state.queue.durable >= newest {
                return Poll::Ready(());
            }
            state.queue.want(newest);
            state.wait_at(self.at, cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Queues an entry other than its end; it is written with the next batch.
    pub(crate) fn note(&self, entry: impl Into<Entry>) -> tidelock_store::Result<()> {
        let entry = entry.into().encode()?;
        self.activation.state().record(self.at, entry, None);
        Ok(())
    }

    /// Records its end. If the end must be durable before it is visible, it is written at once.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn end(
        &self,
        entry: impl Into<Entry>,
        end: End,
        durably: bool,
    ) -> tidelock_store::Result<()> {
        let entry = entry.into().encode()?;
        fits(&entry)?;
        self.activation.state().record(self.at, entry, Some((end, durably)));
        Ok(())
    }

    /// Commits an entry together with staged writes.
    pub(crate) async fn commit_with(
        &self,
        entry: impl Into<Entry>,
        end: Option<End>,
        staged: Staged,
    ) -> tidelock_store::Result<LandingEnd> {
        let entry = entry.into().encode()?;
        fits(&entry)?;
        let (reply, landed) = oneshot::channel();
        let landing = Landing { at: self.at, entry, end, staged, reply };
        self.activation.state().queue.landings.push_back(Box::new(landing));
        // The reply is only missing when the whole turn is dropped.
        match landed.await {
            Ok(landed) => Ok(landed),
            Err(_) => pending().await,
        }
    }

    /// Waits for its end, which is delivered after everything known before it.
    pub(crate) async fn ended(&self) -> End {
        self.poll(|cx| {
            let mut state = self.activation.state();
            let durable = state.queue.durable;
            let is_there =
                state.cursor.live[self.at].end.is_some_and(|(_, number)| durable >= number);
            let dropped = state.past.records[self.at].dropped;
            if is_there && !dropped && state.cursor.is_next(self.at) {
                state.cursor.live[self.at].delivered = true;
                state.advance();
                let end = state.past.records[self.at].end.clone();
                return Poll::Ready(end.expect("an operation with an end in the order has ended"));
            }
            state.wait_at(self.at, cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Waits for a condition, a timeout, or the cancellation of the run (except in clean-up). If
    /// several hold, the first in this order wins.
    pub(crate) async fn wait(
        &self,
        late: Option<Timestamp>,
        cleanup: bool,
        mut ready: impl FnMut(&mut State) -> bool,
    ) -> Woken {
        self.poll(|cx| {
            let now = self.activation.now();
            let mut state = self.activation.state();
            let woken = if ready(&mut state) {
                Some(Woken::Ready)
            } else if !cleanup && state.cancel().is_some() {
                Some(Woken::Cancelled)
            } else {
                late.filter(|late| *late <= now).map(|_| Woken::Late)
            };
            if let Some(woken) = woken {
                state.outstanding.remove(&self.at);
                return Poll::Ready(woken);
            }
            state.outstanding.insert(self.at, late);
            state.wait_at(self.at, cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Runs an external effect, during which the driver keeps the turn open.
    pub(crate) async fn effect<F: Future>(&self, effect: F) -> F::Output {
        let _active = Active::begin(self.activation);
        pin!(effect).await
    }

    /// Polls inside of the function only.
    async fn poll<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        poll_fn(|cx| match self.activation.is_inside() {
            true => poll(cx),
            false => Poll::Pending,
        })
        .await
    }

    pub(crate) fn activation(&self) -> &Activation {
        self.activation
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

impl Drop for Op<'_> {
    fn drop(&mut self) {
        self.activation.state().abandon(self.at);
    }
}

/// Validates an entry before it is queued: an entry that the store refuses would block all later
/// ones.
fn fits(entry: &tidelock_store::NewEvent) -> tidelock_store::Result<()> {
    let bytes = entry.payload.as_str().len();
    if bytes > limits::PAYLOAD_BYTES {
        let error = format!("it has {bytes} bytes; the limit is {}", limits::PAYLOAD_BYTES);
        return Err(tidelock_store::StoreError::limit(error));
    }
    Ok(())
}

/// An effect in flight.
struct Active<'a>(&'a Activation);

impl<'a> Active<'a> {
    fn begin(activation: &'a Activation) -> Self {
        activation.state().active += 1;
        Self(activation)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.state().active -= 1;
    }
}
