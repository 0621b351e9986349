//! Releasing a stale claim, for operators.
//!
//! The next claimant takes such a claim over anyway. This is for claims without a next claimant,
//! which would otherwise stay listed as in progress indefinitely.

use tidelock_store::{
    Commit, ExpectedRevision, RawJson, Record, RecordKey, RecordWrite, Result, Slot, Timestamp,
    WorkerName,
};

use super::entry::Entry;
use super::operation::OperationRecord;
use super::{ClaimKey, Claims, keys};

/// Outcome of releasing a stale claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only one of these means that it is free"]
pub enum Released {
    /// It is available.
    Free {
        /// Its last claimant.
        by: WorkerName,
    },
    /// It is held, and its lease has not expired.
    Held {
        /// Its holder.
        by: WorkerName,
        /// When the lease expires, unless it is renewed.
        until: Option<Timestamp>,
    },
    /// It was completed or failed, and the result is kept.
    Over,
    /// There is no such claim.
    Absent,
}

impl Claims {
    /// Releases a claim by its whole name (`lock/till`, `idempotency/pay:42`), if its lease has
    /// expired without a result.
    ///
    /// The store checks this inside the commit: a claimant that is only slow keeps it, and so does
    /// one that arrives meanwhile.
    ///
    /// # Errors
    /// `Invalid` if the name is invalid; otherwise errors of the store.
    pub async fn release_stale(&self, claim: &str) -> Result<Released> {
        let record = keys::named(claim)?;
        let lease = keys::lease_of(&record)?;
        let recorded = self
            .operation
            .as_ref()
            .map(|operation| operation.record(&ClaimKey::new(keys::RELEASE, &claim)))
            .transpose()?;
        let operation_record = recorded.as_ref().map(|recorded| recorded.record.clone());
        let records: Vec<RecordKey> = [record, lease].into_iter().chain(operation_record).collect();
        loop {
            let slots = self.store().get(&records).await?;
            if let Some(before) = slots.get(2).and_then(Slot::live) {
                return Ok(Released::Free { by: before.value.to()? });
            }
            let [Slot::Live(there), leased, ..] = &slots[..] else { return Ok(Released::Absent) };
            let entry = Entry::read(there)?;
            match leased.live() {
                _ if !entry.is_pending() => return Ok(Released::Over),
                Some(leased) => {
                    return Ok(Released::Held { by: entry.by, until: leased.expires_at });
                }
                None if self
                    .send(&freeing(there, &entry, recorded.as_ref())?)
                    .await?
                    .committed()
                    .is_ok() =>
                {
                    return Ok(Released::Free { by: entry.by });
                }
                // It has changed meanwhile; read again.
                None => {}
            }
        }
    }
}

fn freeing(claim: &Record, entry: &Entry, recorded: Option<&OperationRecord>) -> Result<Commit> {
    let delete = RecordWrite::delete(&claim.key, ExpectedRevision::Revision(claim.revision));
    let lease = keys::lease_of(&claim.key)?;
    let commit = Commit::new().write(delete).guard_record(&lease, ExpectedRevision::Absent);
    Ok(match recorded {
        Some(recorded) => commit.write(recorded.write(RawJson::new(&entry.by)?)),
        None => commit,
    })
}
