//! Outcomes of taking from a quota.

use tidelock_store::Timestamp;

use super::super::ClaimKey;

/// Outcome of taking from a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "what is exceeded is not granted"]
pub enum QuotaOutcome<G> {
    /// The units are taken.
    Granted(G),
    /// Not enough units are left.
    Exceeded(QuotaExceeded),
}

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

impl<G> QuotaOutcome<G> {
    /// Returns the grant, or the exceeded quota as an error.
    ///
    /// # Errors
    /// [`QuotaExceeded`] if not enough units are left.
    pub fn granted(self) -> Result<G, QuotaExceeded> {
        match self {
            Self::Granted(granted) => Ok(granted),
            Self::Exceeded(exceeded) => Err(exceeded),
        }
    }
}
