//! Maps scope errors to problems: an expectation from a header is a precondition.

use http::StatusCode;
use tidelock::problem::Problem;
use tidelock::scopes::ScopeError;

/// The problem for this error.
pub(in super::super) fn to_problem(error: ScopeError) -> Problem {
    match error {
        ScopeError::Moved { .. } | ScopeError::Taken { .. } => {
            Problem::from(error).with_status(StatusCode::PRECONDITION_FAILED)
        }
        ScopeError::Gone { revision: Some(_), .. } => Problem::from(error).map_detail(|detail| {
            format!("{detail}: create it again with PUT and If-None-Match: *")
        }),
        ScopeError::Store(error) => match Problem::from(error) {
            invalid if invalid.status() == StatusCode::BAD_REQUEST => {
                invalid.map_detail(|detail| format!("the scope's document: {detail}"))
            }
            problem => problem,
        },
        error => error.into(),
    }
}
