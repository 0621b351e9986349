//! Maps claim errors to problems.

use http::StatusCode;
use tidelock::claims::ClaimError;

use crate::limits::RETRY_AFTER;
use crate::problem::Problem;

/// The problem for this error.
pub(in super::super) fn to_problem(error: ClaimError) -> Problem {
    let detail = error.to_string();
    match error {
        ClaimError::Lost { fence, .. } => {
            Problem::conflict("fence-lost", detail).with("fence", fence)
        }
        ClaimError::Over { fence, .. } => {
            Problem::conflict("claim-over", detail).with("fence", fence)
        }
        ClaimError::StillHeld { by, until, .. } => {
            Problem::conflict("claim-held", detail).with("by", by).with("until", until)
        }
        ClaimError::Free { .. } => Problem::conflict("claim-free", detail),
        ClaimError::Settled { .. } => Problem::conflict("reservation-over", detail),
        ClaimError::Failed { .. } => Problem::conflict("claim-failed", detail),
        ClaimError::Refused { .. } => Problem::conflict("conflict", detail),
        ClaimError::Contended { .. } => {
            Problem::conflict("contended", detail).retry_after(RETRY_AFTER)
        }
        ClaimError::Store(error) => error.into(),
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "claim-unreadable", detail),
    }
}
