//! Reads the state of an idempotency key without claiming it.

use serde::de::DeserializeOwned;
use tidelock_store::{Fence, Slot, StoreError};

use super::super::claim_attempt::{ClaimAttempt, Contender};
use super::super::entry::Entry;
use super::super::handoff::records;
use super::super::{ClaimError, ClaimKey, Claims, Fingerprint};
use super::InProgress;

/// State of an idempotency key.
#[derive(Debug)]
pub enum Peek<T> {
    /// Not claimed, or the claimant gave up or died.
    Free,
    /// Another claimant is working, under this fence: [wait](InProgress::wait) for the result, or
    /// come back later.
    Held(Box<InProgress<T>>, Fence),
    /// The work was done; this is its result.
    Done(T),
    /// The work failed, and the failure was remembered.
    Failed(String),
}

/// State according to the claim's records.
pub(super) enum PeekEntry {
    Free,
    Held(Contender, Fence),
    Over(Entry),
}

impl<T: DeserializeOwned> Peek<T> {
    pub(super) async fn at(claims: &Claims, attempt: ClaimAttempt) -> Result<Self, ClaimError> {
        Ok(match read_state(claims, &attempt.key, attempt.entry.fingerprint).await? {
            PeekEntry::Free => Self::Free,
            PeekEntry::Held(contender, fence) => Self::Held(
                Box::new(InProgress::peeked(claims, &attempt, Box::new(contender))),
                fence,
            ),
            PeekEntry::Over(entry) => match super::result(&attempt.key, &entry) {
                Ok(result) => Self::Done(result),
                Err(ClaimError::Failed { error, .. }) => Self::Failed(error),
                Err(error) => return Err(error),
            },
        })
    }
}

/// Reads the state of a key for a request with this fingerprint.
pub(super) async fn read_state(
    claims: &Claims,
    key: &ClaimKey,
    asked: Option<Fingerprint>,
) -> Result<PeekEntry, StoreError> {
    let slots = claims.store().get(&records(key)?).await?;
    let [Slot::Live(claim), lease] = &slots[..] else { return Ok(PeekEntry::Free) };
    let entry = Entry::read(claim)?;
    Ok(match lease {
        // Released, and claimed for another request: its result does not answer this one.
        _ if entry.differs(asked) => PeekEntry::Free,
        _ if !entry.is_pending() => PeekEntry::Over(entry),
        Slot::Live(lease) => {
            PeekEntry::Held(Contender::new(entry, lease), Fence::new(claim.revision.get())?)
        }
        _ => PeekEntry::Free,
    })
}
