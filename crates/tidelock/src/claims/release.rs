//! Frees a claim whose claimant is gone, for operators.
//!
//! Nobody has to wait for this: whoever comes next takes such a claim over. It is for those of
//! which nobody will come, and which would otherwise stand there as begun for ever.

use tidelock_store::{
    Commit, ExpectedRevision, RawJson, Record, RecordKey, RecordWrite, Result, Slot, Timestamp,
    WorkerName,
};

use super::entry::Entry;
use super::operation::Note;
use super::{ClaimKey, Claims, keys};

/// What came of freeing a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only one of these means that it is free"]
pub enum Released {
    /// It is free.
    Free {
        /// Who was at it last.
        by: WorkerName,
    },
    /// Somebody is at it, and may be.
    Held {
        /// Who.
        by: WorkerName,
        /// Until when, unless they ask for longer.
        until: Option<Timestamp>,
    },
    /// It was done, or failed, and what came of it is kept.
    Over,
    /// There is no such claim.
    Absent,
}

impl Claims {
    /// Frees a claim, by its whole name (`lock/till`, `idempotency/pay:42`), if its lease has run
    /// out and nothing came of it. Judged by the store, inside the commit: a claimant who is only
    /// slow keeps it, and one who comes meanwhile, too.
    ///
    /// # Errors
    /// `Invalid` if it cannot be a name; otherwise what the store says.
    pub async fn release_stale(&self, claim: &str) -> Result<Released> {
        let record = keys::named(claim)?;
        let lease = keys::lease_of(&record)?;
        let note = self
            .operation
            .as_ref()
            .map(|operation| operation.note(&ClaimKey::new(keys::RELEASE, &claim)))
            .transpose()?;
        let noted = note.as_ref().map(|note| note.record.clone());
        let places: Vec<RecordKey> = [record, lease].into_iter().chain(noted).collect();
        loop {
            let slots = self.store().get(&places).await?;
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
                    .send(&freeing(there, &entry, note.as_ref())?)
                    .await?
                    .committed()
                    .is_ok() =>
                {
                    return Ok(Released::Free { by: entry.by });
                }
                // It has moved meanwhile.
                None => {}
            }
        }
    }
}

fn freeing(claim: &Record, entry: &Entry, note: Option<&Note>) -> Result<Commit> {
    let delete = RecordWrite::delete(&claim.key, ExpectedRevision::Revision(claim.revision));
    let lease = keys::lease_of(&claim.key)?;
    let commit = Commit::new().write(delete).guard_record(&lease, ExpectedRevision::Absent);
    Ok(match note {
        Some(note) => commit.write(note.write(RawJson::new(&entry.by)?)),
        None => commit,
    })
}
