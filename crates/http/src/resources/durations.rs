//! Durations in requests: whole milliseconds, within bounds.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::store::limits::LEASE_DURATION;

use crate::app_state::AppState;

/// The longest lease, in milliseconds, for the OpenAPI document.
pub(super) const LEASE_MS: u64 = 604_800_000;

/// Milliseconds, within the integer range of every language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct Millis(u64);

impl Millis {
    /// The maximum, for the OpenAPI document.
    pub(crate) const MOST: u64 = i64::MAX as u64;

    /// Converts, saturating at the maximum.
    pub(super) fn at_most(millis: u128) -> Self {
        Self(u64::try_from(millis).unwrap_or(Self::MOST).min(Self::MOST))
    }

    /// Converts to a duration.
    pub(super) fn span(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl TryFrom<u64> for Millis {
    type Error = String;

    fn try_from(millis: u64) -> Result<Self, String> {
        match millis {
            0..=Self::MOST => Ok(Self(millis)),
            // Worded like serde's own messages, so that the client is told the bound and not the
            // value.
            _ => Err(format!("invalid value, expected at most {} milliseconds", Self::MOST)),
        }
    }
}

/// A lease's duration.
pub(super) fn lease(millis: u64) -> Result<Duration, Problem> {
    let lease = Duration::from_millis(millis);
    if lease.is_zero() || lease > LEASE_DURATION {
        let detail = format!(
            "lease_ms {millis} is not between 1 and {LEASE_MS}: a lease can be renewed, so it need not be as long as the work"
        );
        return Err(Problem::bad_request("lease-invalid", detail));
    }
    Ok(lease)
}

/// A duration greater than zero.
pub(super) fn some(millis: Millis, what: &str) -> Result<Duration, Problem> {
    match millis {
        Millis(0) => Err(Problem::bad_request(
            "time-invalid",
            format!("{what} is 0: use 1 or more, or leave it out"),
        )),
        millis => Ok(millis.span()),
    }
}

/// How long to wait: as requested, up to the server's limit.
pub(super) fn wait(served: &AppState, millis: Option<Millis>) -> Duration {
    millis.map_or(Duration::ZERO, Millis::span).min(served.limits().wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_beyond_the_bound_are_refused() {
        assert_eq!(
            serde_json::from_str::<Millis>("9223372036854775807").unwrap(),
            Millis(Millis::MOST)
        );
        let refused = serde_json::from_str::<Millis>("9223372036854775808").unwrap_err();
        assert!(
            tidelock::store::unfit(&refused).starts_with("expected at most 9223372036854775807"),
            "{refused}"
        );
        assert_eq!(Millis::at_most(u128::MAX), Millis(Millis::MOST));
    }

    #[test]
    fn the_documented_bound_is_enforced() {
        assert_eq!(Duration::from_millis(LEASE_MS), LEASE_DURATION);
        assert!(lease(LEASE_MS).is_ok() && lease(LEASE_MS + 1).is_err() && lease(0).is_err());
    }
}
