//! Published status: values that a run makes visible to clients.

use serde::Serialize;
use tidelock_store::RawJson;

use super::RunCtx;
use crate::runs::history::Published;
use crate::runs::replay::{Durability, Kind};
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// Publishes the run's status: [`RunHandle::published`](crate::runs::RunHandle::published)
    /// returns the newest.
    ///
    /// It is recorded with the next entry of the run, and before the run's next effect.
    ///
    /// # Errors
    /// Returns an error if the name is not valid, or the status cannot be stored.
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
