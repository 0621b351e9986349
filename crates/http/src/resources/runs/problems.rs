//! Maps run errors to problems.

use http::StatusCode;
use tidelock::runs::RunError;

use crate::limits::RETRY_AFTER;
use crate::problem::Problem;

/// The problem for this error.
pub(super) fn to_problem(error: RunError) -> Problem {
    let detail = error.to_string();
    match error {
        RunError::Name(_) => Problem::bad_request("name-invalid", detail),
        RunError::NoRun { .. } => Problem::not_found("no-run", detail),
        RunError::Removed { .. } => Problem::new(StatusCode::GONE, "run-removed", detail),
        RunError::Ended { state, .. } => {
            Problem::conflict("run-ended", detail).with("state", state)
        }
        RunError::OtherRun { .. } => Problem::conflict("other-run", detail),
        RunError::Input { .. } => Problem::bad_request("input-invalid", detail),
        RunError::UnknownWorkflow { .. } => Problem::conflict("workflow-unknown", detail),
        RunError::OtherSignal { .. } => Problem::conflict("other-signal", detail),
        RunError::NotFailed { state, .. } => {
            Problem::conflict("run-not-failed", detail).with("state", state)
        }
        RunError::Compensated { .. } => Problem::conflict("run-compensated", detail),
        RunError::OutOfTime { .. } => Problem::conflict("run-out-of-time", detail),
        RunError::NotAwaitingVerdict { .. } => {
            Problem::conflict("step-not-awaiting-verdict", detail)
        }
        RunError::Contended { .. } => {
            Problem::conflict("contended", detail).retry_after(RETRY_AFTER)
        }
        RunError::Store(error) => error.into(),
        _ => Problem::conflict("run-refused", detail),
    }
}
