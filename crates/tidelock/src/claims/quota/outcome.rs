//! Usage of a quota, and the refusal of one that is exceeded.

use tidelock_store::Timestamp;

use super::super::ClaimKey;

/// A quota with not enough units left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("claim {key:?}: {requested} more than the {used} taken goes past the limit of {limit}{}", until(.resets_at.as_ref()))]
pub struct QuotaExceeded {
    /// The quota.
    pub key: ClaimKey,
    /// Units taken.
    pub used: i64,
    /// The limit.
    pub limit: i64,
    /// Units requested.
    pub requested: i64,
    /// When the window resets, if ever.
    pub resets_at: Option<Timestamp>,
}

/// Usage of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaUsage {
    /// Units taken, including reservations.
    pub used: i64,
    /// The limit.
    pub limit: i64,
    /// When the window resets; `None` if nothing was taken yet, or it never resets.
    pub resets_at: Option<Timestamp>,
}

fn until(moment: Option<&Timestamp>) -> String {
    moment.map_or_else(String::new, |moment| format!(", until {moment}"))
}
