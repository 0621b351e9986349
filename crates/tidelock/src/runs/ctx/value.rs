//! Recorded values: randomness, and which side of a code change a run is on.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::RawJson;

use super::RunCtx;
use crate::runs::history::Value;
use crate::runs::replay::{Durability, End, Kind};
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// Records a non-deterministic value (a random number, an id, a setting): computed once, and
    /// the same in every replay.
    ///
    /// The closure must not have external effects; those belong into steps.
    ///
    /// # Errors
    /// Returns an error if the name is not valid, or the value cannot be stored.
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
    /// It can be called more than once per name, and removed when no older run is left.
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
