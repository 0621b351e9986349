//! What there is to see of a key, for whoever does not want it.

use serde::de::DeserializeOwned;
use tidelock_store::{Fence, Slot, StoreError};

use super::super::entry::Entry;
use super::super::passed::places;
use super::super::stake::{Rival, Stake};
use super::super::{ClaimError, ClaimKey, Claims, Fingerprint};
use super::Holder;

/// A key as it is now.
#[derive(Debug)]
pub enum Look<T> {
    /// Nobody has claimed it; or somebody did, and gave up or died.
    Free,
    /// Somebody is at it, under this fence: [wait](Holder::wait) for the result, or come back.
    Held(Box<Holder<T>>, Fence),
    /// It was done; this is what came of it.
    Done(T),
    /// It was done, and failed, and the failure was to be remembered.
    Failed(String),
}

/// What the records of a claim say.
pub(super) enum Glance {
    Free,
    Held(Rival, Fence),
    Over(Entry),
}

impl<T: DeserializeOwned> Look<T> {
    pub(super) async fn at(claims: &Claims, stake: Stake) -> Result<Self, ClaimError> {
        Ok(match glance(claims, &stake.key, stake.entry.fingerprint).await? {
            Glance::Free => Self::Free,
            Glance::Held(rival, fence) => {
                Self::Held(Box::new(Holder::seen(claims, &stake, rival)), fence)
            }
            Glance::Over(entry) => match super::result(&stake.key, &entry) {
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
) -> Result<Glance, StoreError> {
    let slots = claims.store().get(&places(key)?).await?;
    let [Slot::Live(claim), lease] = &slots[..] else { return Ok(Glance::Free) };
    let entry = Entry::read(claim)?;
    Ok(match lease {
        // Given back, and taken for another request: that one's result is not an answer to this
        // one.
        _ if entry.differs(asked) => Glance::Free,
        _ if !entry.is_pending() => Glance::Over(entry),
        Slot::Live(lease) => {
            Glance::Held(Rival::new(entry, lease), Fence::new(claim.revision.get())?)
        }
        _ => Glance::Free,
    })
}
