//! Spans of time, as requests bring them: whole milliseconds, within bounds.

use std::time::Duration;

use tidelock::limits::LEASE_DURATION;

use crate::problem::Problem;
use crate::served::Served;

/// The longest lease, in milliseconds, for documents.
pub(super) const LEASE_MS: u64 = 604_800_000;

/// How long something is leased for.
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

/// How long something lasts: not for no time at all.
pub(super) fn some(millis: u64, what: &str) -> Result<Duration, Problem> {
    match millis {
        0 => {
            Err(Problem::bad_request("time-invalid", format!("{what} is 0: say 1 or more, or leave it out")))
        }
        millis => Ok(Duration::from_millis(millis)),
    }
}

/// How long to wait: as long as was asked for, and no longer than the server lets anybody wait.
pub(super) fn wait(served: &Served, millis: Option<u64>) -> Duration {
    Duration::from_millis(millis.unwrap_or(0)).min(served.limits().wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_that_is_documented_is_the_one_that_holds() {
        assert_eq!(Duration::from_millis(LEASE_MS), LEASE_DURATION);
        assert!(lease(LEASE_MS).is_ok() && lease(LEASE_MS + 1).is_err() && lease(0).is_err());
    }
}
