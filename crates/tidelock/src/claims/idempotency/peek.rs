//! What there is to see of a key, for whoever does not want it.

use serde::de::DeserializeOwned;
use tidelock_store::{Fence, Slot, StoreError};

use super::super::claim_attempt::{ClaimAttempt, Contender};
use super::super::entry::Entry;
use super::super::handoff::places;
use super::super::{ClaimError, ClaimKey, Claims, Fingerprint};
use super::InProgress;

/// A key as it is now.
#[derive(Debug)]
pub enum Peek<T> {
    /// Nobody has claimed it; or somebody did, and gave up or died.
    Free,
    /// Somebody is at it, under this fence: [wait](InProgress::wait) for the result, or come back.
    Held(Box<InProgress<T>>, Fence),
    /// It was done; this is what came of it.
    Done(T),
    /// It was done, and failed, and the failure was to be remembered.
    Failed(String),
}

/// What the records of a claim say.
pub(super) enum PeekEntry {
    Free,
    Held(Contender, Fence),
    Over(Entry),
}

impl<T: DeserializeOwned> Peek<T> {
    pub(super) async fn at(claims: &Claims, stake: ClaimAttempt) -> Result<Self, ClaimError> {
        Ok(match glance(claims, &stake.key, stake.entry.fingerprint).await? {
            PeekEntry::Free => Self::Free,
            PeekEntry::Held(rival, fence) => {
                Self::Held(Box::new(InProgress::seen(claims, &stake, rival)), fence)
            }
            PeekEntry::Over(entry) => match super::result(&stake.key, &entry) {
                Ok(result) => Self::Done(result),
                Err(ClaimError::Failed { error, .. }) => Self::Failed(error),
                Err(error) => return Err(error),
            },
        })
    }
}

/// Looks at a key as whoever asks for this sees it.
pub(super) async fn glance(
    claims: &Claims,
    key: &ClaimKey,
    asked: Option<Fingerprint>,
) -> Result<PeekEntry, StoreError> {
    let slots = claims.store().get(&places(key)?).await?;
    let [Slot::Live(claim), lease] = &slots[..] else { return Ok(PeekEntry::Free) };
    let entry = Entry::read(claim)?;
    Ok(match lease {
        // Given back, and taken for another request: that one's result is not an answer to this
        // one.
        _ if entry.differs(asked) => PeekEntry::Free,
        _ if !entry.is_pending() => PeekEntry::Over(entry),
        Slot::Live(lease) => {
            PeekEntry::Held(Contender::new(entry, lease), Fence::new(claim.revision.get())?)
        }
        _ => PeekEntry::Free,
    })
}
