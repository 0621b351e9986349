//! The holder of a lock.

use serde::Serialize;
use tidelock_store::{Fence, Slot, Timestamp, WorkerName};

use super::super::claim_attempt::Contender;
use super::super::entry::Entry;
use super::super::handoff::places;
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
        let slots = claims.store().get(&places(key)?).await?;
        let [Slot::Live(claim), Slot::Live(lease)] = &slots[..] else { return Ok(None) };
        let (fence, rival) =
            (Fence::new(claim.revision.get())?, Contender::new(Entry::read(claim)?, lease));
        Ok(Some(Self { fence, since: rival.since, until: rival.until, by: rival.entry.by }))
    }
}
