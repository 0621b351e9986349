//! Usage of a rate limit, and the refusal of one that is exceeded.

use std::time::Duration;

use tidelock_store::Timestamp;

use super::super::ClaimKey;

/// A rate limit with not enough units available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "claim {key:?}: {requested} units are not available until {possible_at}, in {retry_after:?}"
)]
pub struct RateExceeded {
    /// The rate limit.
    pub key: ClaimKey,
    /// Units requested.
    pub requested: u32,
    /// When they will be available, if no others are taken before.
    pub possible_at: Timestamp,
    /// How long until then.
    pub retry_after: Duration,
}

/// Usage of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateUsage {
    /// Units that can be taken now.
    pub available: u32,
    /// The most units that can be taken at once.
    pub burst: u32,
    /// When all of them will be available again.
    pub full_at: Timestamp,
}
