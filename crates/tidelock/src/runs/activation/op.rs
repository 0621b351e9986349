//! One operation of a run as the function's code sees it, from its request to its end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::pending;
use tidelock_store::Result;
use tokio::sync::oneshot;

use super::{Activation, LandingOutcome, StagedWrites};
use crate::runs::StepName;
use crate::runs::history::Entry;
use crate::runs::replay::{Durability, End, Kind, OpId, Progress, Replay, Wait, Woken};
use crate::staging::Staged;

/// A requested operation. Dropping it before its end is delivered abandons it.
#[derive(Debug)]
pub(crate) struct Op<'a> {
    activation: &'a Activation,
    id: OpId,
}

impl Activation {
    /// Requests the operation of this name. Never completes if the name is used twice or recorded
    /// as another kind.
    pub(crate) async fn request(&self, name: &StepName, kind: Kind) -> Op<'_> {
        self.inside().await;
        match self.replay(|replay| replay.request(name, kind)) {
            Some(id) => Op { activation: self, id },
            None => pending().await,
        }
    }
}

impl Op<'_> {
    /// What is recorded of it before its end.
    pub(crate) fn progress(&self) -> Progress {
        self.activation.replay(|replay| replay.progress(self.id))
    }

    /// Whether something of it is recorded, or will be.
    pub(crate) fn is_recorded(&self) -> bool {
        self.activation.replay(|replay| replay.is_recorded(self.id))
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.activation.replay(|replay| replay.is_ended(self.id))
    }

    /// Waits until replay has consumed the recorded history.
    pub(crate) async fn after_replay(&self) {
        self.until(|replay| replay.is_caught_up(self.id).then_some(())).await;
    }

    /// Waits until an effect may start: not while the worker shuts down.
    pub(crate) async fn may_begin(&self) {
        self.until(|replay| {
            if self.activation.task.stopping().is_cancelled() {
                replay.stop();
            }
            replay.may_begin(self.id).then_some(())
        })
        .await;
    }

    /// Waits until all earlier entries are durable: a replay must not decide differently after an
    /// effect.
    pub(crate) async fn written(&self) {
        let newest = self.activation.replay(|replay| replay.newest());
        self.until(|replay| replay.is_written(newest).then_some(())).await;
    }

    /// Queues an entry other than its end; it is written with the next batch.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn note(&self, entry: impl Into<Entry>) -> Result<()> {
        self.activation.replay(|replay| replay.note(self.id, entry))
    }

    /// Records its end.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn end(&self, entry: impl Into<Entry>, durability: Durability) -> Result<()> {
        self.activation.replay(|replay| replay.end(self.id, entry, durability))
    }

    /// Commits an entry together with staged writes.
    ///
    /// # Errors
    /// Returns an error if the entry cannot be stored.
    pub(crate) async fn commit_with(
        &self,
        entry: impl Into<Entry>,
        staged: Staged,
    ) -> Result<LandingOutcome> {
        let (reply, landed) = oneshot::channel();
        {
            let mut shared = self.activation.shared();
            shared.replay.stage(self.id, entry)?;
            shared.staged.insert(self.id, Box::new(StagedWrites { staged, reply }));
        }
        // The reply is only missing when the whole turn is dropped.
        match landed.await {
            Ok(landed) => Ok(landed),
            Err(_) => pending().await,
        }
    }

    /// Waits for its end, which is delivered after everything known before it.
    pub(crate) async fn result(&self) -> End {
        self.until(|replay| replay.result(self.id)).await
    }

    /// Waits for an event, a time, or the cancellation of the run (except in clean-up).
    pub(crate) async fn wait(&self, wait: Wait) -> Woken {
        self.until(|replay| replay.wait(self.id, &wait, self.activation.now())).await
    }

    /// Runs an external effect, during which the driver keeps the turn open.
    pub(crate) async fn effect<F: Future>(&self, effect: F) -> F::Output {
        let _in_flight = EffectInFlight::begin(self.activation);
        pin!(effect).await
    }

    /// Polls the replay, inside of the function only, until it has an answer.
    async fn until<T>(&self, mut poll: impl FnMut(&mut Replay) -> Option<T>) -> T {
        poll_fn(|cx| {
            if !self.activation.is_inside() {
                return Poll::Pending;
            }
            let mut shared = self.activation.shared();
            let answer = poll(&mut shared.replay);
            if answer.is_none() {
                shared.wait_at(self.id, cx.waker());
            }
            shared.wake();
            answer.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    pub(crate) fn activation(&self) -> &Activation {
        self.activation
    }
}

impl Drop for Op<'_> {
    fn drop(&mut self) {
        let mut shared = self.activation.shared();
        shared.wakers.remove(&self.id);
        shared.staged.remove(&self.id);
        shared.replay.abandon(self.id);
        shared.wake();
    }
}

/// An effect in flight.
struct EffectInFlight<'a>(&'a Activation);

impl<'a> EffectInFlight<'a> {
    fn begin(activation: &'a Activation) -> Self {
        activation.replay(|replay| replay.effect(true));
        Self(activation)
    }
}

impl Drop for EffectInFlight<'_> {
    fn drop(&mut self) {
        self.0.replay(|replay| replay.effect(false));
    }
}
