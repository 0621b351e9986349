//! Recorded values: randomness, time and sleeps, which side of a code change a run is on, and what
//! the run publishes.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{RawJson, Timestamp};

use super::{RunCtx, interrupt};
use crate::runs::activation::Op;
use crate::runs::history::{Fired, Interruptible, Published, Timer, Value};
use crate::runs::replay::{Durability, End, Kind, On, Wait, Woken};
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// Records a non-deterministic value (a random number, an id, a setting): computed once, and
    /// the same in every replay.
    ///
    /// The closure must not have external effects; those belong into steps.
    ///
    /// # Errors
    /// Returns an error if the name is not valid, or the value cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// async fn newsletter(ctx: RunCtx, readers: u64) -> Result<u64, StepError> {
    ///     // Another seed in another process, but the same in every replay of this run.
    ///     let seed = ctx.value("seed", std::process::id).await?;
    ///     Ok(u64::from(seed) % readers)
    /// }
    /// ```
    pub async fn value<T>(
        &self,
        name: impl AsRef<str>,
        draw: impl FnOnce() -> T,
    ) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
    {
        let name = StepName::new(name)?;
        let op = self.activation.request(&name, Kind::Value).await;
        if !op.is_ended() {
            op.after_replay().await;
            let value = RawJson::new(&draw()).map_err(|e| super::invalid(name.as_str(), &e))?;
            op.end(Value { name: name.clone(), value }, Durability::Lazy)
                .map_err(|e| super::invalid(name.as_str(), &e))?;
        }
        let End::Done(value) = op.result().await else { unreachable!("a value has no other end") };
        match value.to() {
            Ok(value) => Ok(value),
            Err(error) => self.unfit(&name, &error).await,
        }
    }

    /// Returns a random number; the same in every replay.
    ///
    /// # Errors
    /// Returns an error if the name is not valid.
    pub async fn random(&self, name: impl AsRef<str>) -> Result<u64, StepError> {
        self.value(name, || fastrand::u64(..)).await
    }

    /// Versions a change of code: returns true in a run that reaches this call for the first time,
    /// and false in a run that passed it before the change. So old runs finish on the old path.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::runs::{RunCtx, StepError};
    /// # async fn weigh() -> Result<(), HandlerError> { Ok(()) }
    /// # async fn ship() -> Result<(), HandlerError> { Ok(()) }
    /// async fn send(ctx: RunCtx, order: String) -> Result<(), StepError> {
    ///     if ctx.patched("weigh-first").await? {
    ///         ctx.step("weigh", |_key| weigh()).await?;
    ///     }
    ///     ctx.step("ship", |_key| ship()).await
    /// }
    /// ```
    ///
    /// It can be called more than once per name. Code without the call does not continue runs that
    /// took the new path, so keep it, even if every run takes that path, while such runs are open.
    ///
    /// # Errors
    /// Returns an error if the name is not valid.
    pub async fn patched(&self, name: impl AsRef<str>) -> Result<bool, StepError> {
        let name = StepName::new(name)?;
        self.activation.inside().await;
        let taken = self.activation.replay(|replay| replay.patched(&name));
        taken.map_err(|e| super::invalid(name.as_str(), &e))
    }
}

impl RunCtx {
    /// Sleeps for this duration, by the store's clock. A sleeping run uses no resources and
    /// survives restarts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tidelock::prelude::*;
    ///
    /// async fn remind(ctx: RunCtx, customer: String) -> Result<(), StepError> {
    ///     ctx.sleep("a week", Duration::from_secs(7 * 24 * 3600)).await?;
    ///     ctx.step("mail", |_key| async {
    ///         println!("remind {customer}");
    ///         Ok::<_, HandlerError>(())
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the run is cancelled, or the name is not valid.
    pub async fn sleep(&self, name: impl AsRef<str>, duration: Duration) -> Result<(), StepError> {
        self.sleep_for(name.as_ref(), |now| now.plus(duration)).await
    }

    /// Sleeps until this time, by the store's clock. A time in the past completes at once.
    ///
    /// # Errors
    /// Returns an error if the run is cancelled, or the name is not valid.
    pub async fn sleep_until(
        &self,
        name: impl AsRef<str>,
        moment: Timestamp,
    ) -> Result<(), StepError> {
        self.sleep_for(name.as_ref(), |_| moment).await
    }

    async fn sleep_for(
        &self,
        name: &str,
        until: impl FnOnce(Timestamp) -> Timestamp,
    ) -> Result<(), StepError> {
        let name = StepName::new(name)?;
        let op = self.activation.request(&name, Kind::Sleep).await;
        if !op.is_ended() {
            op.after_replay().await;
            self.doze(&op, &name, until).await;
        }
        match op.result().await {
            End::Interrupted => Err(self.cancelled()),
            _ => Ok(()),
        }
    }

    async fn doze(&self, op: &Op<'_>, name: &StepName, until: impl FnOnce(Timestamp) -> Timestamp) {
        let until = op.progress().until.unwrap_or_else(|| {
            let until = until(self.activation.now());
            op.note(Timer { name: name.clone(), until }).expect("a name and a time can be stored");
            until
        });
        let wait = Wait { on: On::Time, until: Some(until), cleanup: self.cleanup };
        match op.wait(wait).await {
            Woken::Cancelled => interrupt(op, name, Interruptible::Sleep),
            _ => {
                op.end(Fired { name: name.clone() }, Durability::Lazy)
                    .expect("a name can be stored");
            }
        }
    }

    /// Returns the time by the store's clock; the same in every replay.
    ///
    /// # Errors
    /// Returns an error if the name is not valid.
    pub async fn now(&self, name: impl AsRef<str>) -> Result<Timestamp, StepError> {
        let now = || self.activation.now();
        self.value(name, now).await
    }
}

impl RunCtx {
    /// Publishes the run's status: [`RunHandle::published`](crate::runs::RunHandle::published)
    /// returns the newest.
    ///
    /// It is recorded with the next entry of the run, and before the run's next effect.
    ///
    /// # Errors
    /// Returns an error if the name is not valid, or the status cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// async fn checkout(ctx: RunCtx, order: String) -> Result<(), StepError> {
    ///     ctx.publish("waiting", &format!("{order} waits for its payment")).await?;
    ///     ctx.wait_for_signal::<()>("paid").await?;
    ///     ctx.publish("done", &format!("{order} is paid")).await
    /// }
    /// ```
    pub async fn publish(
        &self,
        name: impl AsRef<str>,
        status: &(impl Serialize + ?Sized),
    ) -> Result<(), StepError> {
        let name = StepName::new(name)?;
        let op = self.activation.request(&name, Kind::Status).await;
        if !op.is_ended() {
            op.after_replay().await;
            let status = RawJson::new(status).map_err(|e| super::invalid(name.as_str(), &e))?;
            op.end(Published { name: name.clone(), status }, Durability::Lazy)
                .map_err(|e| super::invalid(name.as_str(), &e))?;
        }
        op.result().await;
        Ok(())
    }
}
