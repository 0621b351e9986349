//! One operation of a run, from being asked for to its end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::pending;
use tidelock_store::{Timestamp, limits};
use tokio::sync::oneshot;

use super::{Activation, Landing, LandingEnd, State};
use crate::runs::StepName;
use crate::runs::history::Entry;
use crate::runs::replay::{End, Kind, Record};
use crate::staging::Staged;

/// An operation that the function asked for. If it goes away before its end was handed over, the
/// function has let go of it.
#[derive(Debug)]
pub(crate) struct Op<'a> {
    activation: &'a Activation,
    at: usize,
}

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// What was waited for.
    Ready,
    /// The moment up to which it was to be waited for.
    Late,
    /// The run is to cancel.
    Cancelled,
}

impl Activation {
    /// Asks for the operation of this name. Never ready if it cannot be what is asked for.
    pub(crate) async fn ask(&self, name: &StepName, kind: Kind) -> Op<'_> {
        let asked = self.state().ask(name, kind);
        match asked {
            Some(at) => Op { activation: self, at },
            None => pending().await,
        }
    }
}

impl Op<'_> {
    /// What is recorded of it.
    pub(crate) fn record(&self) -> Record {
        self.activation.state().past.records[self.at].clone()
    }

    /// Whether something of it is recorded, or will be.
    pub(crate) fn is_recorded(&self) -> bool {
        self.activation.state().order.live[self.at].recorded
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.activation.state().past.records[self.at].end.is_some()
    }

    /// Until the function has come as far as it had before; only then does anything new begin.
    pub(crate) async fn new_ground(&self) {
        poll_fn(|cx| {
            let mut state = self.activation.state();
            if !state.order.is_replay() {
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

    /// Until something may begin: not while the worker is being shut down.
    pub(crate) async fn may_begin(&self) {
        poll_fn(|cx| {
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

    /// Until everything that was decided on the way is in the store: a replay must not decide
    /// otherwise after an effect.
    pub(crate) async fn written(&self) {
        let newest = self.activation.state().queue.newest();
        poll_fn(|cx| {
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

    /// Records something of it that is not its end; it is written with whatever is written next.
    pub(crate) fn note(&self, entry: impl Into<Entry>) -> tidelock_store::Result<()> {
        let entry = entry.into().encode()?;
        self.activation.state().record(self.at, entry, None);
        Ok(())
    }

    /// Records its end. If others must not see it before it is in the store, it is written at once.
    ///
    /// # Errors
    /// If it cannot be stored.
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

    /// Records something of it together with other parts of a commit.
    pub(crate) async fn land(
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
        // Nobody answers only when the whole turn goes away.
        match landed.await {
            Ok(landed) => Ok(landed),
            Err(_) => pending().await,
        }
    }

    /// Its end, once everything that was known before it has been handed over.
    pub(crate) async fn ended(&self) -> End {
        poll_fn(|cx| {
            let mut state = self.activation.state();
            let durable = state.queue.durable;
            let is_there =
                state.order.live[self.at].end.is_some_and(|(_, number)| durable >= number);
            let dropped = state.past.records[self.at].dropped;
            if is_there && !dropped && state.order.is_next(self.at) {
                state.order.live[self.at].delivered = true;
                state.nudge();
                let end = state.past.records[self.at].end.clone();
                return Poll::Ready(end.expect("what has a place in the order has ended"));
            }
            state.wait_at(self.at, cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Until this is so, or it is late, or the run is to cancel (unless this is clean-up). What
    /// comes together is decided here, in this order.
    pub(crate) async fn until(
        &self,
        late: Option<Timestamp>,
        cleanup: bool,
        mut ready: impl FnMut(&mut State) -> bool,
    ) -> Woken {
        poll_fn(|cx| {
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

    /// Does something outside; the driver waits for it.
    pub(crate) async fn effect<F: Future>(&self, effect: F) -> F::Output {
        let _active = Active::begin(self.activation);
        pin!(effect).await
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
        self.activation.state().let_go(self.at);
    }
}

/// What a store would refuse is found out before it is queued: an entry that cannot be written
/// would stop all behind it.
fn fits(entry: &tidelock_store::NewEvent) -> tidelock_store::Result<()> {
    let bytes = entry.payload.as_str().len();
    if bytes > limits::PAYLOAD_BYTES {
        let error = format!("it has {bytes} bytes; the limit is {}", limits::PAYLOAD_BYTES);
        return Err(tidelock_store::StoreError::limit(error));
    }
    Ok(())
}

/// An effect that runs.
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
