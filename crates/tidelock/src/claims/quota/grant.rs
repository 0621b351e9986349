//! What was granted of a quota, and giving it back.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Bounds, Commit, CommitOutcome, Conflict, ExpectedRevision, RawJson, RecordWrite, Result,
    Revision, StoreError, Timestamp, When,
};
use uuid::Uuid;

use super::super::acquire::found;
use super::super::{ClaimError, ClaimKey, Claims, keys};

/// So much of a quota, taken. Keep it with what it was taken for, if it may have to be given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub(super) id: Uuid,
    /// Of which quota.
    pub quota: String,
    /// How much.
    pub units: i64,
    /// The period that was charged.
    pub(super) window: Revision,
    /// When that period ends, if it does.
    pub ends: Option<Timestamp>,
    /// Whether it is only reserved, and goes back by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) reserved: bool,
}

/// What came of giving back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundOutcome {
    /// It was given back.
    Refunded,
    /// It had been before.
    Already,
    /// The period that it was taken from is over: there is nothing to give it back to.
    Over,
}

impl Grant {
    pub(super) async fn refund(
        &self,
        claims: &Claims,
        key: &ClaimKey,
    ) -> Result<RefundOutcome, ClaimError> {
        self.belongs_to(key)?;
        if self.reserved {
            let context = format!(
                "a grant of {key:?} that is reserved and not confirmed goes back by its reservation"
            );
            return Err(StoreError::invalid(context).into());
        }
        let commit = claims.repeatable(self.give_back(Commit::new(), key)?);
        match claims.send(&commit).await? {
            CommitOutcome::Committed(_) => Ok(RefundOutcome::Refunded),
            CommitOutcome::Conflict(conflict) if self.is_noted(&conflict, key)? => {
                Ok(RefundOutcome::Already)
            }
            CommitOutcome::Conflict(_) => Ok(RefundOutcome::Over),
        }
    }

    /// The same, taken for good.
    pub(in super::super) fn confirmed(&self) -> Self {
        Self { reserved: false, ..self.clone() }
    }

    /// Refuses what was taken of another quota, or is less than nothing.
    pub(super) fn belongs_to(&self, key: &ClaimKey) -> Result<()> {
        if self.quota != key.as_str() {
            let context = format!("a grant of {:?} cannot be given back to {key:?}", self.quota);
            return Err(StoreError::invalid(context));
        }
        if self.units < 0 {
            let context = format!("a grant of {} units of {key:?} was never made", self.units);
            return Err(StoreError::invalid(context));
        }
        Ok(())
    }

    /// Gives back in this commit, if the period is still open, and notes that it was done.
    fn give_back(&self, commit: Commit, key: &ClaimKey) -> Result<Commit> {
        let note = RecordWrite::put(
            &keys::refund(key, self.id)?,
            ExpectedRevision::Absent,
            RawJson::new(&self.units)?,
        );
        let note = match self.ends {
            Some(end) => note.expiring(When::At(end)),
            None => note,
        };
        Ok(commit
            .guard_record(&keys::window(key)?, ExpectedRevision::Revision(self.window))
            .write(note)
            .write(RecordWrite::add(&keys::taken(key)?, -self.units, Bounds::at_least(0))))
    }

    /// Whether the period was over.
    fn is_over(&self, conflict: &Conflict, key: &ClaimKey) -> Result<bool> {
        Ok(found(conflict, &keys::window(key)?).is_some())
    }

    fn is_noted(&self, conflict: &Conflict, key: &ClaimKey) -> Result<bool> {
        Ok(!self.is_over(conflict, key)? && found(conflict, &keys::refund(key, self.id)?).is_some())
    }
}
