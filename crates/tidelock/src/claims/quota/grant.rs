//! Grants of a quota, and refunds.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Bounds, Commit, CommitOutcome, Conflict, ExpectedRevision, RawJson, RecordWrite, Result,
    Revision, StoreError, Timestamp, When,
};
use uuid::Uuid;

use super::super::acquire::found;
use super::super::{ClaimError, ClaimKey, keys};
use super::{Quota, Window};
use crate::staging::Landing;

/// Units taken from a quota. Store it with the purpose if it may have to be refunded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub(super) id: Uuid,
    /// The quota.
    pub quota: String,
    /// Number of units.
    pub units: i64,
    /// The window that was debited.
    pub(super) window: Revision,
    /// When that window ends, if it does.
    pub ends: Option<Timestamp>,
    /// Whether it is only reserved, and goes back automatically.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) reserved: bool,
    /// The seal of the window: it was made like this. Absent from grants of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seal: Option<Uuid>,
    /// The unit of work that takes the units with its commit.
    #[serde(skip)]
    pub(super) landing: Option<Landing>,
}

/// Outcome of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundOutcome {
    /// Refunded now.
    Refunded,
    /// Refunded before.
    Already,
    /// The window it was taken from is over: there is nothing to refund to.
    Over,
}

impl Grant {
    pub(super) async fn refund(&self, quota: &Quota) -> Result<RefundOutcome, ClaimError> {
        let (claims, key) = (&quota.claims, &quota.key());
        self.belongs_to(key)?;
        if self.reserved {
            let context = format!(
                "a grant of {key:?} that is reserved and not confirmed goes back by its reservation"
            );
            return Err(StoreError::invalid(context).into());
        }
        if self.landing.as_ref().is_some_and(|landing| !landing.has_landed()) {
            let context = format!(
                "a grant of {key:?} from a transaction that is not known to be committed took nothing to refund"
            );
            return Err(StoreError::invalid(context).into());
        }
        if quota.window_of(self).await?.is_some_and(|window| !window.has_made(self)) {
            return Err(self.never_made(key).into());
        }
        let commit = claims.ensure_retry_id(self.give_back(Commit::new(), key)?);
        match claims.send(&commit).await? {
            CommitOutcome::Committed(_) => Ok(RefundOutcome::Refunded),
            CommitOutcome::Conflict(conflict) if self.is_refunded(&conflict, key)? => {
                Ok(RefundOutcome::Already)
            }
            CommitOutcome::Conflict(_) => Ok(RefundOutcome::Over),
        }
    }

    /// Returns the grant as confirmed, sealed by its window while that is open.
    pub(super) fn confirmed(&self, window: Option<&Window>) -> Self {
        let confirmed = Self { reserved: false, seal: None, ..self.clone() };
        match window {
            Some(window) => window.seal(confirmed),
            None => confirmed,
        }
    }

    /// Rejects a grant of another quota, or with negative units.
    pub(super) fn belongs_to(&self, key: &ClaimKey) -> Result<()> {
        if self.quota != key.as_str() {
            let context = format!("a grant of {:?} cannot be refunded to {key:?}", self.quota);
            return Err(StoreError::invalid(context));
        }
        if self.units < 0 {
            return Err(self.never_made(key));
        }
        Ok(())
    }

    fn never_made(&self, key: &ClaimKey) -> StoreError {
        StoreError::invalid(format!(
            "a grant of {} units of {key:?} was never made like this",
            self.units
        ))
    }

    /// Adds the refund to a commit, if the window is still open, and records it.
    fn give_back(&self, commit: Commit, key: &ClaimKey) -> Result<Commit> {
        let mark = RecordWrite::put(
            &keys::refund(key, self.id)?,
            ExpectedRevision::Absent,
            RawJson::new(&self.units)?,
        );
        let mark = match self.ends {
            Some(end) => mark.expiring(When::At(end)),
            None => mark,
        };
        Ok(commit
            .guard_record(&keys::window(key)?, ExpectedRevision::Revision(self.window))
            .write(mark)
            .write(RecordWrite::add(&keys::taken(key)?, -self.units, Bounds::at_least(0))))
    }

    /// Whether the window was over.
    fn is_over(&self, conflict: &Conflict, key: &ClaimKey) -> Result<bool> {
        Ok(found(conflict, &keys::window(key)?).is_some())
    }

    fn is_refunded(&self, conflict: &Conflict, key: &ClaimKey) -> Result<bool> {
        Ok(!self.is_over(conflict, key)? && found(conflict, &keys::refund(key, self.id)?).is_some())
    }
}
