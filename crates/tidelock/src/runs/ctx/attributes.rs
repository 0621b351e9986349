//! Attributes of a run, changed while it runs.

use std::collections::BTreeMap;

use super::RunCtx;
use crate::runs::summary::{Summarized, Summary};
use crate::runs::{RunId, StepError};
use crate::staging::Tx;

/// The attributes that change: to a value, or away.
type Changes = BTreeMap<String, Option<String>>;

impl RunCtx {
    /// Sets attributes of the run, by which [listings](crate::runs::RunFilter::attribute) and bulk
    /// operations find it. Others stay as they are.
    ///
    /// It is a step: the change lands in one commit with its record, and a replay does not repeat
    /// it. A run keeps its attributes when it continues as new, ends, or is retried.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// async fn publish(ctx: RunCtx, page: String) -> Result<(), StepError> {
    ///     ctx.set_attributes("in review", [("phase", "review")]).await?;
    ///     ctx.wait_for_signal::<()>("approved").await?;
    ///     ctx.set_attributes("published", [("phase", "public"), ("page", &page)]).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the run is cancelled, the step's name is not valid, or an attribute is
    /// too long for a key.
    pub async fn set_attributes<N: Into<String>, V: Into<String>>(
        &self,
        step: impl AsRef<str>,
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), StepError> {
        let set = |(name, value): (N, V)| (name.into(), Some(value.into()));
        self.change_attributes(step.as_ref(), attributes.into_iter().map(set).collect()).await
    }

    /// Removes attributes of the run, as [`set_attributes`](Self::set_attributes) sets them.
    ///
    /// # Errors
    /// As [`set_attributes`](Self::set_attributes).
    pub async fn remove_attributes<N: Into<String>>(
        &self,
        step: impl AsRef<str>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<(), StepError> {
        let remove = |name: N| (name.into(), None);
        self.change_attributes(step.as_ref(), names.into_iter().map(remove).collect()).await
    }

    async fn change_attributes(&self, step: &str, changes: Changes) -> Result<(), StepError> {
        let stage = |tx: Tx| {
            // Before it can land: the end of the run reads the summary again.
            self.activation.summary_changes();
            stage(tx, self.run(), &changes)
        };
        self.transact(step, stage).await
    }
}

/// Stages the summary with these changes, as it is now.
async fn stage(tx: Tx, run: &RunId, changes: &Changes) -> crate::Result<()> {
    let Some(there) = Summarized::read(&**tx.store(), run).await? else { return Ok(()) };
    let mut next = Summary::clone(&there.summary);
    for (name, value) in changes {
        match value {
            Some(value) => drop(next.attributes.insert(name.clone(), value.clone())),
            None => drop(next.attributes.remove(name)),
        }
    }
    there.update_writes(&next)?.into_iter().try_for_each(|write| tx.write(write))
}
