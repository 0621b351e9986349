//! How long a claim is kept for a holder that does not come back.

use std::time::Duration;

use tidelock_store::{Result, StoreError, Timestamp, When, limits};

use super::ClaimKey;
use crate::bounds;

/// The shortest time that the clock of a store can tell from none.
const SHORTEST: Duration = Duration::from_micros(1);

/// When a lease ends: so long after it was granted, or, for what is held together, at one moment
/// for all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) length: Duration,
    pub(super) end: When,
}

impl Term {
    /// So long after the commit.
    pub(super) fn lasting(length: Duration) -> Self {
        Self { length, end: When::In(length) }
    }

    /// Until this moment.
    pub(super) fn until(end: Timestamp, now: Timestamp) -> Self {
        Self { length: end.since(now), end: When::At(end) }
    }
}

/// Refuses a lease that is over before it begins, or that outlasts what a store leases.
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

/// Refuses a result that no store keeps for so long.
pub(super) fn check_ttl(key: &ClaimKey, ttl: Option<Duration>) -> Result<()> {
    ttl.map_or(Ok(()), |ttl| bounds::keeps(format_args!("claim {key:?}: a ttl"), ttl))
}
