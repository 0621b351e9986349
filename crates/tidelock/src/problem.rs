//! Problem details (RFC 9457): error responses of HTTP APIs.
//!
//! Every error of this crate converts into a [`Problem`], with the status, the code and the fields
//! that the HTTP API of `tidelock-http` answers with. With the feature `axum`, an
//! [`Error`](crate::Error) is a response, and `?` is enough in a handler:
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # mod shown {
//! use axum::extract::{Path, State};
//! use axum::response::{IntoResponse, Response};
//! use tidelock::Tidelock;
//!
//! async fn order(State(tidelock): State<Tidelock>, Path(id): Path<String>) -> tidelock::Result<Response> {
//!     let run = tidelock.runs().run(&id).get().await?; // 404 if there is no such run
//!     Ok(run.workflow.to_string().into_response())
//! }
//!
//! # pub fn app(tidelock: Tidelock) -> axum::Router {
//! axum::Router::new().route("/orders/{id}", axum::routing::get(order)).with_state(tidelock)
//! # }
//! # }
//! ```

mod errors;

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

/// The URI of problem types; the fragment is the code.
pub const TYPES: &str = "urn:tidelock:problem";
/// The media type of problems.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The `Retry-After` of a request that came at a bad moment.
const SOON: Duration = Duration::from_secs(1);

/// An error response: problem details according to RFC 9457.
///
/// Programs tell problems apart by `code`; `detail` says what happened, to what, and what to do.
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
    /// The URI of its type, and its title, if they are not the defaults.
    kind: Option<(String, &'static str)>,
    fields: Map<String, Value>,
    headers: HeaderMap,
}

/// Problem details, as they are sent.
#[derive(Debug, Serialize)]
struct Details {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(flatten)]
    fields: Map<String, Value>,
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

    /// Status 403: not allowed.
    pub fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// Status 404: not found.
    pub fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// Status 409: a conflict.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// Status 500: the server failed.
    pub fn internal(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail)
    }

    /// Status 503: not possible now; the client may retry in a second.
    pub fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(SOON)
    }

    /// Replaces the type and the title: by default a URN with the code, and the name of the status.
    #[must_use]
    pub fn typed(mut self, uri: impl Into<String>, title: &'static str) -> Self {
        self.more.kind = Some((uri.into(), title));
        self
    }

    /// Replaces the status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Replaces the detail by one made from it.
    #[must_use]
    pub fn map_detail(mut self, map: impl FnOnce(&str) -> String) -> Self {
        self.detail = map(&self.detail);
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Serialize) -> Self {
        // A value that cannot be JSON is left out: a problem must not fail.
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.more.fields.insert(field.to_owned(), value);
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

    /// Returns the code.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the JSON body; server errors are also logged.
    pub fn to_json(&self) -> String {
        if self.status.is_server_error() {
            let (status, code) = (self.status.as_u16(), self.code);
            tracing::warn!(status, code, detail = self.detail, "answered with a problem");
        }
        let name = self.status.canonical_reason().unwrap_or("Problem");
        let default = || (format!("{TYPES}#{}", self.code), name);
        let (r#type, title) = self.more.kind.clone().unwrap_or_else(default);
        let (status, detail) = (self.status.as_u16(), self.detail.clone());
        let fields = self.more.fields.clone();
        let details = Details { r#type, title, status, detail, code: self.code, fields };
        serde_json::to_string(&details).expect("texts, a number and JSON values are JSON")
    }

    /// Converts the problem into a response.
    pub fn into_http(self) -> Response<String> {
        let mut response = Response::new(self.to_json());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.more.headers;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        response
    }
}

#[cfg(feature = "axum")]
impl axum_core::response::IntoResponse for Problem {
    fn into_response(self) -> axum_core::response::Response {
        self.into_http().map(axum_core::body::Body::from)
    }
}

#[cfg(feature = "axum")]
impl axum_core::response::IntoResponse for crate::Error {
    fn into_response(self) -> axum_core::response::Response {
        Problem::from(self).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_its_standard_and_own_fields() {
        let problem =
            Problem::conflict("version-conflict", "stream \"a\": found 6").with("found", 6);
        let details: Value = serde_json::from_str(&problem.to_json()).unwrap();
        assert_eq!(details["type"], "urn:tidelock:problem#version-conflict");
        assert_eq!((&details["title"], &details["status"]), (&"Conflict".into(), &409.into()));
        assert_eq!((&details["code"], &details["found"]), (&"version-conflict".into(), &6.into()));
    }

    #[test]
    fn retry_after_is_rounded_up() {
        let problem = Problem::unavailable("away", "").retry_after(Duration::from_millis(1_500));
        assert_eq!(problem.into_http().headers()[RETRY_AFTER], "2");
    }
}
