//! Checks of child runs that the run waits for.

use tidelock_store::{Result, limits};

use super::Driver;
use crate::runs::history::{self, RunOutcome};
use crate::runs::replay::OpId;
use crate::runs::summary::Summarized;
use crate::runs::{RunId, keys};

impl Driver {
    /// Checks whether children have ended, and returns whether one has.
    pub(super) async fn check_children(&mut self) -> Result<bool> {
        let waited = self.activation.replay(|replay| replay.open_children());
        let mut any = false;
        for waited in waited.chunks(limits::PAGE_SIZE) {
            any |= self.look_after(waited).await?;
        }
        Ok(any)
    }

    async fn look_after(&self, children: &[(OpId, RunId)]) -> Result<bool> {
        let store = self.activation.store();
        let keys: Vec<_> = children.iter().map(|(_, run)| keys::summary(run)).collect();
        let mut any = false;
        for ((op, run), slot) in children.iter().zip(store.get(&keys).await?) {
            let outcome = match Summarized::of(run, &slot)? {
                Some(child) if !child.summary.state.is_ended() => continue,
                Some(child) => history::outcome(&**store, &child).await?,
                None => None,
            };
            let outcome =
                outcome.unwrap_or_else(|| RunOutcome::Terminated("it no longer exists".into()));
            self.activation.replay(|replay| replay.child_ended(*op, outcome));
            any = true;
        }
        Ok(any)
    }
}
