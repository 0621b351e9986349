//! What can come of taking from a quota.

use tidelock_store::Timestamp;

use super::super::ClaimKey;

/// What came of taking from a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "what is exceeded is not granted"]
pub enum QuotaOutcome<G> {
    /// It is yours.
    Granted(G),
    /// There is not so much left.
    Exceeded(QuotaExceeded),
}

/// A quota with not so much left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("claim {key:?}: {requested} more than the {used} taken goes past the limit of {limit}{}", until(.resets_at.as_ref()))]
pub struct QuotaExceeded {
    /// Which quota.
    pub key: ClaimKey,
    /// How much was taken.
    pub used: i64,
    /// How much there is.
    pub limit: i64,
    /// How much was asked for.
    pub requested: i64,
    /// When there is as much again, if ever.
    pub resets_at: Option<Timestamp>,
}

/// How much of a quota is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaUsage {
    /// How much was taken, reservations included.
    pub used: i64,
    /// How much there is.
    pub limit: i64,
    /// When there is as much again; nothing was taken yet if there is none, or it never is.
    pub resets_at: Option<Timestamp>,
}

fn until(moment: Option<&Timestamp>) -> String {
    moment.map_or_else(String::new, |moment| format!(", until {moment}"))
}

impl<G> QuotaOutcome<G> {
    /// What was granted, or what was in the way as an error, for callers to whom it is one.
    ///
    /// # Errors
    /// [`QuotaExceeded`] if there was not so much left.
    pub fn granted(self) -> Result<G, QuotaExceeded> {
        match self {
            Self::Granted(granted) => Ok(granted),
            Self::Exceeded(exceeded) => Err(exceeded),
        }
    }
}
