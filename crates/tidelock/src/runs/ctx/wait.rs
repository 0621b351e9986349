//! Waiting for a signal.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tidelock_store::Timestamp;

use super::{RunCtx, interrupt};
use crate::runs::activation::{Op, State, Woken};
use crate::runs::history::{Interruptible, Received, TimedOut, Waiting};
use crate::runs::replay::{End, Kind};
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// Waits for the next signal of this name; one that came before is not lost. Each wait has a
    /// name of its own, which is the signal's unless [`named`](WaitForSignal::named) otherwise.
    ///
    /// Gives the payload; with a [`timeout`](WaitForSignal::timeout), nothing if no signal came in
    /// time.
    pub fn wait_for_signal<T>(&self, signal: impl Into<String>) -> WaitForSignal<'_, T> {
        WaitForSignal {
            ctx: self,
            signal: signal.into(),
            name: None,
            timeout: None,
            payload: PhantomData,
        }
    }
}

/// A wait for a signal, to be awaited.
#[must_use = "nothing is waited for before it is awaited"]
#[derive(Debug)]
pub struct WaitForSignal<'c, T> {
    ctx: &'c RunCtx,
    signal: String,
    name: Option<String>,
    timeout: Option<Duration>,
    payload: PhantomData<fn() -> T>,
}

impl<T> WaitForSignal<'_, T> {
    /// The same, under another name than the signal's: for a run that waits more than once for the
    /// same signal.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same, for no longer than this.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<T: DeserializeOwned + Send> WaitForSignal<'_, T> {
    async fn wait(self) -> Result<Option<T>, StepError> {
        let name = StepName::new(self.name.as_ref().unwrap_or(&self.signal))?;
        let op = self.ctx.activation.ask(&name, Kind::Wait).await;
        if !op.is_ended() {
            op.new_ground().await;
            self.look_out(&op, &name).await?;
        }
        match op.ended().await {
            End::Received(id) => self.read(&name, &id).await.map(Some),
            End::TimedOut => Ok(None),
            _ => Err(self.ctx.cancelled()),
        }
    }

    /// A signal and the time may both be there; which of them counted is recorded.
    async fn look_out(&self, op: &Op<'_>, name: &StepName) -> Result<(), StepError> {
        let until = self.until(op, name)?;
        let mut received = None;
        let came = |state: &mut State| {
            received = state.past.inbox.next(&self.signal).map(str::to_owned);
            received.iter().for_each(|id| state.past.inbox.receive(id));
            received.is_some()
        };
        let woken = op.until(until, self.ctx.cleanup, came).await;
        let invalid = |e| super::invalid(name.as_str(), &e);
        match (woken, received) {
            (Woken::Cancelled, _) => interrupt(op, name, Interruptible::Wait),
            (_, Some(id)) => {
                let entry = Received { name: name.clone(), id: id.clone() };
                op.end(entry, End::Received(id), false).map_err(invalid)?;
            }
            (_, None) => {
                op.end(TimedOut { name: name.clone() }, End::TimedOut, false).map_err(invalid)?;
            }
        }
        Ok(())
    }

    fn until(&self, op: &Op<'_>, name: &StepName) -> Result<Option<Timestamp>, StepError> {
        let record = op.record();
        if record.signal.is_some() {
            return Ok(record.until);
        }
        let until = self.timeout.map(|timeout| self.ctx.activation.now().plus(timeout));
        let entry = Waiting { name: name.clone(), signal: self.signal.clone(), until };
        op.note(entry).map_err(|e| super::invalid(name.as_str(), &e))?;
        Ok(until)
    }

    /// A payload of another type is its sender's mistake, and the function's to handle.
    async fn read(&self, name: &StepName, id: &str) -> Result<T, StepError> {
        let payload = self.ctx.activation.state().past.inbox.payload(id).cloned();
        match payload {
            Some(payload) => payload.to().map_err(|e| super::invalid(name.as_str(), &e)),
            None => {
                let gone = tidelock_store::StoreError::invalid(format!(
                    "signal {id:?} is not in the history"
                ));
                self.ctx.unfit(name, &gone).await
            }
        }
    }
}

/// Ready with the payload, or with nothing if no signal came in time.
impl<'c, T: DeserializeOwned + Send + 'c> IntoFuture for WaitForSignal<'c, T> {
    type Output = Result<Option<T>, StepError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.wait().boxed()
    }
}
