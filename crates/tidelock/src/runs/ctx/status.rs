//! What a run says about itself, for whoever asks.

use serde::Serialize;
use tidelock_store::RawJson;

use super::RunCtx;
use crate::runs::history::Published;
use crate::runs::replay::{End, Kind};
use crate::runs::{StepError, StepName};

impl RunCtx {
    /// Says how far the run is: [`RunHandle::published`](crate::runs::RunHandle::published) gives
    /// the newest that was said. It is recorded with whatever the run records next, and before
    /// anything that the run does next.
    ///
    /// # Errors
    /// If the name cannot be one, or the status cannot be stored.
    pub async fn publish(
        &self,
        name: impl AsRef<str>,
        status: &(impl Serialize + ?Sized),
    ) -> Result<(), StepError> {
        let name = StepName::new(name)?;
        let op = self.activation.ask(&name, Kind::Status).await;
        if !op.is_ended() {
            op.new_ground().await;
            let status = RawJson::new(status).map_err(|e| super::invalid(name.as_str(), &e))?;
            op.end(
                Published { name: name.clone(), status: status.clone() },
                End::Done(status),
                false,
            )
            .map_err(|e| super::invalid(name.as_str(), &e))?;
        }
        op.ended().await;
        Ok(())
    }
}
