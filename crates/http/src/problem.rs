//! Error responses: problem details according to RFC 9457.
//!
//! Programs tell problems apart by `code`; `detail` says what happened, to what, and what to do. It
//! never contains payloads or secrets.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};
use tidelock::{ErrorKind, RetryAdvice, StoreError, StoreErrorKind};
use utoipa::ToSchema;

use crate::limits;

/// The URI of problem types; the fragment is the code.
pub(crate) const TYPES: &str = "urn:tidelock:problem";
/// The media type of problems.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// An error response.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    /// Boxed, because most responses are not problems, and a result is as large as its largest
    /// variant.
    more: Box<More>,
}

#[derive(Debug, Clone, Default)]
struct More {
    extra: Map<String, Value>,
    headers: HeaderMap,
}

/// Problem details, as they are sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDetails {
    /// The type of problem, as a URI; its fragment is the code.
    #[schema(example = "urn:tidelock:problem#version-conflict")]
    r#type: String,
    /// The status, as text.
    title: &'static str,
    /// The status.
    status: u16,
    /// What happened, to which thing, and what to do.
    detail: String,
    /// Identifies the problem to programs.
    #[schema(example = "version-conflict")]
    code: &'static str,
    #[serde(flatten)]
    #[schema(ignore)]
    extra: Map<String, Value>,
}

impl Problem {
    /// Creates a problem.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Box::default() }
    }

    /// Status 400: the request is invalid.
    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// Status 404: not found.
    pub fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// Status 409: a conflict.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// Status 403: not allowed.
    pub fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// Status 503: not possible now.
    pub fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(limits::RETRY_AFTER)
    }

    /// Names the part of the request that is invalid, if the problem is an invalid request.
    #[must_use]
    pub(crate) fn about(mut self, part: &str) -> Self {
        if self.status == StatusCode::BAD_REQUEST {
            self.detail = format!("{part}: {}", self.detail);
        }
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Serialize) -> Self {
        // A value that cannot be JSON is left out: a problem must not fail.
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.more.extra.insert(field.to_owned(), value);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.more.headers.insert(name, value);
        self
    }

    /// Adds `Retry-After`, rounded up to whole seconds.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        self.header(RETRY_AFTER, seconds.into())
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The details as they are sent; server errors are also logged.
    pub(crate) fn logged(&self) -> ProblemDetails {
        if self.status.is_server_error() {
            let (status, code) = (self.status.as_u16(), self.code);
            tracing::warn!(status, code, detail = self.detail, "answered with a problem");
        }
        self.details()
    }

    fn details(&self) -> ProblemDetails {
        ProblemDetails {
            r#type: format!("{TYPES}#{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Problem"),
            status: self.status.as_u16(),
            detail: self.detail.clone(),
            code: self.code,
            extra: self.more.extra.clone(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, mut headers) = (self.status, self.more.headers.clone());
        let body =
            serde_json::to_vec(&self.logged()).expect("texts, a number and JSON values are JSON");
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        (status, headers, body).into_response()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (status, code) = match error.kind() {
            StoreErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
            StoreErrorKind::LimitExceeded => (StatusCode::BAD_REQUEST, "limit-exceeded"),
            StoreErrorKind::IdempotencyMismatch => (StatusCode::CONFLICT, "id-reused"),
            StoreErrorKind::Rewound => (StatusCode::GONE, "position-unknown"),
            StoreErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable"),
            StoreErrorKind::Full => (StatusCode::INSUFFICIENT_STORAGE, "store-full"),
            StoreErrorKind::Incompatible => {
                (StatusCode::INTERNAL_SERVER_ERROR, "store-incompatible")
            }
            StoreErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "store-corrupt"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "store-failed"),
        };
        let problem = Self::new(status, code, error.context());
        match error.advice() {
            RetryAdvice::Never => problem,
            RetryAdvice::Later => problem.retry_after(limits::RETRY_AFTER),
            RetryAdvice::Unknown => Self {
                detail: format!(
                    "{}; it may have been carried out: check, or send the same again with its ids",
                    error.context()
                ),
                ..problem.with("outcome", "unknown")
            },
        }
    }
}

impl From<tidelock::Error> for Problem {
    fn from(error: tidelock::Error) -> Self {
        if let Some(store) = error.details::<StoreError>() {
            return store.clone().into();
        }
        let (status, code) = match error.kind() {
            ErrorKind::Unreadable => (StatusCode::CONFLICT, "unreadable"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_its_standard_and_own_fields() {
        let problem =
            Problem::conflict("version-conflict", "stream \"a\": expected version 4, found 6")
                .with("found", 6);
        let details = serde_json::to_value(problem.details()).unwrap();
        assert_eq!(details["type"], "urn:tidelock:problem#version-conflict");
        assert_eq!((&details["title"], &details["status"]), (&"Conflict".into(), &409.into()));
        assert_eq!((&details["code"], &details["found"]), (&"version-conflict".into(), &6.into()));
    }

    #[test]
    fn an_unavailable_store_has_a_retry_after() {
        let away = StoreError::new(
            StoreErrorKind::Unavailable,
            RetryAdvice::Later,
            tidelock::StoreOperation::Commit,
            "away",
        );
        let problem = Problem::from(away);
        assert_eq!(
            (problem.status(), &problem.more.headers[RETRY_AFTER]),
            (StatusCode::SERVICE_UNAVAILABLE, &HeaderValue::from(1))
        );
    }
}
