//! What a client is told when it does not get what it asked for: problem details, as RFC 9457 has
//! them.
//!
//! `code` is what programs tell problems apart by; `detail` says what happened, to which thing, and
//! what to do. Nothing of a payload and nothing secret is ever in it.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};
use tidelock::{RetryAdvice, StoreError, StoreErrorKind};
use utoipa::ToSchema;

use crate::limits;

/// Where the types of problems are: the fragment is the code.
pub(crate) const TYPES: &str = "urn:tidelock:problem";
/// The media type of problems.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Why a client does not get what it asked for.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    /// Apart, for most answers are no problem, and a result is as large as its largest case.
    more: Box<More>,
}

#[derive(Debug, Clone, Default)]
struct More {
    extra: Map<String, Value>,
    headers: HeaderMap,
}

/// As it is sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Details {
    /// What kind of problem it is, as a URI; its fragment is the code.
    #[schema(example = "urn:tidelock:problem#version-conflict")]
    r#type: String,
    /// The status, in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// What happened, to which thing, and what to do.
    detail: String,
    /// By which programs tell it from others.
    #[schema(example = "version-conflict")]
    code: &'static str,
    #[serde(flatten)]
    #[schema(ignore)]
    extra: Map<String, Value>,
}

impl Problem {
    /// This problem.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Box::default() }
    }

    /// What was asked for makes no sense.
    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// It is not there.
    pub fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// Something else is there, or somebody else was first.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// It may not be done.
    pub fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// It cannot be done now.
    pub fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(limits::RETRY_AFTER)
    }

    /// The same; if what was sent is at fault, this part of it is named.
    #[must_use]
    pub(crate) fn about(mut self, part: &str) -> Self {
        if self.status == StatusCode::BAD_REQUEST {
            self.detail = format!("{part}: {}", self.detail);
        }
        self
    }

    /// The same, with this field beside the others.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Serialize) -> Self {
        // What cannot be written as JSON is left out: a problem is not the place to fail.
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.more.extra.insert(field.to_owned(), value);
        self
    }

    /// The same, with this header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.more.headers.insert(name, value);
        self
    }

    /// The same, with the advice to come back after this long; whole seconds, and rather too late
    /// than too early.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        self.header(RETRY_AFTER, seconds.into())
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// As it is sent; if it is the server's fault, the server's log has it too.
    pub(crate) fn logged(&self) -> Details {
        if self.status.is_server_error() {
            let (status, code) = (self.status.as_u16(), self.code);
            tracing::warn!(status, code, detail = self.detail, "answered with a problem");
        }
        self.details()
    }

    fn details(&self) -> Details {
        Details {
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
                    "{}; it may have been done: look, or send the same again with its ids",
                    error.context()
                ),
                ..problem.with("outcome", "unknown")
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_it_is_and_has_its_own_fields() {
        let problem =
            Problem::conflict("version-conflict", "stream \"a\": expected version 4, found 6")
                .with("found", 6);
        let details = serde_json::to_value(problem.details()).unwrap();
        assert_eq!(details["type"], "urn:tidelock:problem#version-conflict");
        assert_eq!((&details["title"], &details["status"]), (&"Conflict".into(), &409.into()));
        assert_eq!((&details["code"], &details["found"]), (&"version-conflict".into(), &6.into()));
    }

    #[test]
    fn a_store_that_is_away_is_worth_another_try() {
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
