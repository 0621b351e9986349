//! The holder of a lock.

use serde::Serialize;
use tidelock_store::{Fence, Slot, Timestamp, WorkerName};

use super::super::claim_attempt::Contender;
use super::super::entry::Entry;
use super::super::handoff::records;
use super::super::{ClaimError, ClaimKey, Claims};

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockHolder {
    /// Its name.
    pub by: WorkerName,
    /// The fence it holds the lock under.
    pub fence: Fence,
    /// When it acquired the lock.
    pub since: Option<Timestamp>,
    /// When the lease expires, unless it is renewed.
    pub until: Option<Timestamp>,
}

impl LockHolder {
    pub(super) async fn of(claims: &Claims, key: &ClaimKey) -> Result<Option<Self>, ClaimError> {
        let slots = claims.store().get(&records(key)?).await?;
        let [Slot::Live(claim), Slot::Live(lease)] = &slots[..] else { return Ok(None) };
        let (fence, contender) =
            (Fence::new(claim.revision.get())?, Contender::new(Entry::read(claim)?, lease));
        Ok(Some(Self {
            fence,
            since: contender.since,
            until: contender.until,
            by: contender.entry.by,
        }))
    }
}
