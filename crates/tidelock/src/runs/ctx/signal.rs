//! Waiting for signals.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tidelock_store::Timestamp;

use super::{RunCtx, interrupt};
use crate::runs::activation::Op;
use crate::runs::history::{Interruptible, Received, TimedOut, Waiting};
use crate::runs::replay::{Durability, End, Kind, On, Wait, Woken};
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// Waits for the next signal of this name; an earlier, unreceived signal is not lost.
    ///
    /// Each wait has a name, which is the signal's unless [`named`](WaitForSignal::named) sets
    /// another. The result is the payload. [`within`](WaitForSignal::within) bounds the wait: then
    /// the result is `None` if no signal came in time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tidelock::prelude::*;
    ///
    /// async fn publish(ctx: RunCtx, _: ()) -> Result<&'static str, StepError> {
    ///     let approval = ctx.wait_for_signal::<String>("approved").within(Duration::from_secs(3600));
    ///     match approval.await? {
    ///         Some(_) => Ok("published"),
    ///         None => Ok("expired"),
    ///     }
    /// }
    /// ```
    pub fn wait_for_signal<T>(&self, signal: impl AsRef<str>) -> WaitForSignal<'_, T> {
        let signal = signal.as_ref().to_owned();
        WaitForSignal { ctx: self, signal, name: None, within: None, payload: PhantomData }
    }
}

/// A wait for a signal: await it for the payload.
#[must_use = "nothing is waited for before it is awaited"]
#[derive(Debug)]
pub struct WaitForSignal<'c, T> {
    ctx: &'c RunCtx,
    signal: String,
    name: Option<String>,
    within: Option<Duration>,
    payload: PhantomData<fn() -> T>,
}

/// A wait for a signal with a time limit: await it for the payload, or `None`.
#[must_use = "nothing is waited for before it is awaited"]
#[derive(Debug)]
pub struct WaitForSignalWithin<'c, T>(WaitForSignal<'c, T>);

impl<'c, T> WaitForSignal<'c, T> {
    /// Sets the name of the wait, for a run that waits for the same signal more than once.
    pub fn named(mut self, name: impl AsRef<str>) -> Self {
        self.name = Some(name.as_ref().to_owned());
        self
    }

    /// Sets a time limit, from the moment when the run first comes here. The result is `None` if no
    /// signal came in time.
    pub fn within(mut self, within: Duration) -> WaitForSignalWithin<'c, T> {
        self.within = Some(within);
        WaitForSignalWithin(self)
    }
}

impl<T> WaitForSignalWithin<'_, T> {
    /// Sets the name of the wait, for a run that waits for the same signal more than once.
    pub fn named(self, name: impl AsRef<str>) -> Self {
        Self(self.0.named(name))
    }
}

impl<T: DeserializeOwned + Send> WaitForSignal<'_, T> {
    /// Waits without a limit. A recorded time limit does not fit this code.
    async fn payload(self) -> Result<T, StepError> {
        let (ctx, name) = (self.ctx, self.step_name()?);
        match self.wait(&name).await? {
            Some(payload) => Ok(payload),
            None => {
                let limited = tidelock_store::StoreError::invalid(
                    "the wait timed out, and the code waits without a limit",
                );
                ctx.unfit(&name, &limited).await
            }
        }
    }

    async fn payload_in_time(self) -> Result<Option<T>, StepError> {
        let name = self.step_name()?;
        self.wait(&name).await
    }

    fn step_name(&self) -> Result<StepName, StepError> {
        Ok(StepName::new(self.name.as_ref().unwrap_or(&self.signal))?)
    }

    async fn wait(self, name: &StepName) -> Result<Option<T>, StepError> {
        let op = self.ctx.activation.request(name, Kind::Wait).await;
        if !op.is_ended() {
            op.after_replay().await;
            self.signal_or_timeout(&op, name).await?;
        }
        match op.result().await {
            End::Received(id) => self.read(name, &id).await.map(Some),
            End::TimedOut => Ok(None),
            _ => Err(self.ctx.cancelled()),
        }
    }

    /// Waits for the signal or the timeout. If both are there, the recorded one counts.
    async fn signal_or_timeout(&self, op: &Op<'_>, name: &StepName) -> Result<(), StepError> {
        let until = self.deadline(op, name)?;
        let on = On::Signal(self.signal.clone());
        let ended = match op.wait(Wait { on, until, cleanup: self.ctx.cleanup }).await {
            Woken::Signal(id) => op.end(Received { name: name.clone(), id }, Durability::Lazy),
            Woken::Late => op.end(TimedOut { name: name.clone() }, Durability::Lazy),
            _ => {
                interrupt(op, name, Interruptible::Wait);
                Ok(())
            }
        };
        ended.map_err(|e| super::invalid(name.as_str(), &e))
    }

    fn deadline(&self, op: &Op<'_>, name: &StepName) -> Result<Option<Timestamp>, StepError> {
        let progress = op.progress();
        if progress.signal.is_some() {
            return Ok(progress.until);
        }
        let until = self.within.map(|within| self.ctx.activation.now().plus(within));
        let entry = Waiting { name: name.clone(), signal: self.signal.clone(), until };
        op.note(entry).map_err(|e| super::invalid(name.as_str(), &e))?;
        Ok(until)
    }

    /// Decodes the payload. A payload of another type is the sender's error, which the function can
    /// handle.
    async fn read(&self, name: &StepName, id: &str) -> Result<T, StepError> {
        let payload = self.ctx.activation.replay(|replay| replay.payload(id).cloned());
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

/// Completes with the payload.
impl<'c, T: DeserializeOwned + Send + 'c> IntoFuture for WaitForSignal<'c, T> {
    type Output = Result<T, StepError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.payload().boxed()
    }
}

/// Completes with the payload, or `None` if no signal came in time.
impl<'c, T: DeserializeOwned + Send + 'c> IntoFuture for WaitForSignalWithin<'c, T> {
    type Output = Result<Option<T>, StepError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0.payload_in_time().boxed()
    }
}
