//! Lease terms: how long a claim stays held after its holder died.

use std::time::Duration;

use tidelock_store::{Result, StoreError, Timestamp, When, limits};

use super::ClaimKey;
use crate::bounds;

/// The resolution of a store's clock.
const SHORTEST: Duration = Duration::from_micros(1);

/// End of a lease: a duration after the commit, or a common time for claims held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseTerm {
    pub(super) length: Duration,
    pub(super) end: When,
}

impl LeaseTerm {
    /// Ends this long after the commit.
    pub(super) fn lasting(length: Duration) -> Self {
        Self { length, end: When::In(length) }
    }

    /// Ends at this time.
    pub(super) fn until(end: Timestamp, now: Timestamp) -> Self {
        Self { length: end.since(now), end: When::At(end) }
    }
}

/// Rejects a lease that is too short or longer than the store supports.
pub(super) fn check(key: &ClaimKey, what: &str, long: Duration) -> Result<()> {
    if long < SHORTEST {
        let context = format!(
            "claim {key:?}: a {what} of {long:?} is over before it begins; say 1 ms or more"
        );
        return Err(StoreError::invalid(context));
    }
    if long > limits::LEASE_DURATION {
        let most = limits::LEASE_DURATION;
        return Err(StoreError::limit(format!(
            "claim {key:?}: a {what} of {long:?}; the limit is {most:?}"
        )));
    }
    Ok(())
}

/// Rejects a TTL that the store does not support.
pub(super) fn check_ttl(key: &ClaimKey, ttl: Option<Duration>) -> Result<()> {
    ttl.map_or(Ok(()), |ttl| bounds::keeps(format_args!("claim {key:?}: a ttl"), ttl))
}
