//! Durable timers, and the recorded time.

use std::time::Duration;

use tidelock_store::Timestamp;

use super::{RunCtx, interrupt};
use crate::runs::activation::Op;
use crate::runs::history::{Fired, Interruptible, Timer};
use crate::runs::replay::{Durability, End, Kind, On, Wait, Woken};
use crate::runs::{StepError, StepName};

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
