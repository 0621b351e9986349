//! Maps scope errors to problems.

use http::StatusCode;
use tidelock::{Revision, ScopeError};

use super::ScopePath;
use crate::limits::RETRY_AFTER;
use crate::problem::Problem;

/// The problem for this error. An expectation from a header is a precondition.
pub(super) fn to_problem(error: ScopeError) -> Problem {
    let detail = error.to_string();
    match error {
        ScopeError::Moved { expected, found, .. } => {
            Problem::new(StatusCode::PRECONDITION_FAILED, "revision-conflict", detail)
                .with("expected", expected)
                .with("found", found)
        }
        ScopeError::Taken { revision, .. } => {
            Problem::new(StatusCode::PRECONDITION_FAILED, "scope-taken", detail)
                .with("found", revision)
        }
        ScopeError::Gone { revision: Some(revision), .. } => {
            let advice = "create it again with PUT and If-None-Match: *";
            Problem::new(StatusCode::GONE, "scope-gone", format!("{detail}: {advice}"))
                .with("revision", revision)
        }
        ScopeError::Gone { revision: None, .. } => Problem::not_found("no-scope", detail),
        ScopeError::Unfit { .. } | ScopeError::Rejected { .. } => {
            Problem::conflict("scope-unfit", detail)
        }
        ScopeError::Contended { .. } => {
            Problem::conflict("contended", detail).retry_after(RETRY_AFTER)
        }
        ScopeError::TimedOut { .. } => Problem::unavailable("timed-out", detail),
        ScopeError::Store(error) => Problem::from(error).about("the scope's document"),
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "scope-unreadable", detail),
    }
}

pub(super) fn gone(ScopePath { kind, id }: &ScopePath, revision: Revision) -> Problem {
    let detail = format!(
        "scope {kind}/{id}: it was deleted, or has expired; create it again with PUT and If-None-Match: *"
    );
    Problem::new(StatusCode::GONE, "scope-gone", detail).with("revision", revision)
}

pub(super) fn never(ScopePath { kind, id }: &ScopePath) -> Problem {
    let detail = format!("scope {kind}/{id}: it never existed; create it with PUT");
    Problem::not_found("no-scope", detail)
}
