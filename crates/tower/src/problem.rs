//! Error responses of the layer: problem details according to RFC 9457.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::options::Options;

/// Why a request gets no response of the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A key is required, and missing.
    KeyMissing,
    /// The key is invalid, and why.
    KeyMalformed(&'static str),
    /// The request has no scope.
    ScopeMissing,
    /// The body failed.
    BodyUnreadable,
    /// The body is too large to be compared.
    BodyTooLarge,
    /// The key was used for another request.
    KeyReused,
    /// A request with the key is in progress.
    InProgress,
    /// The work was done; the response could not be recorded, and went to the first client.
    ResponseNotKept,
    /// The work was done; the response could not be recorded, and no client gets it.
    ResponseRefused,
    /// The handler panicked, or its response failed.
    HandlerFailed,
    /// The store does not answer.
    StoreUnavailable,
}

/// The problem details, as they are sent.
#[derive(Debug, Serialize)]
struct Details<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
    code: &'a str,
}

impl Problem {
    /// The response for this problem.
    pub(crate) fn response(self, options: &Options) -> Response<Bytes> {
        let mut response = Response::new(self.details(options));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(self, Self::InProgress | Self::StoreUnavailable) {
            headers.insert(RETRY_AFTER, seconds(options.retry_after).into());
        }
        response
    }

    /// Identifies the problem to programs.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyMalformed(_) => "key-malformed",
            Self::ScopeMissing => "scope-missing",
            Self::BodyUnreadable => "body-unreadable",
            Self::BodyTooLarge => "body-too-large",
            Self::KeyReused => "key-reused",
            Self::InProgress => "in-progress",
            Self::ResponseNotKept => "response-not-kept",
            Self::ResponseRefused => "response-refused",
            Self::HandlerFailed => "handler-failed",
            Self::StoreUnavailable => "store-unavailable",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing
            | Self::KeyMalformed(_)
            | Self::ScopeMissing
            | Self::BodyUnreadable => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::InProgress => StatusCode::CONFLICT,
            Self::ResponseNotKept => StatusCode::GONE,
            Self::ResponseRefused | Self::HandlerFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "Idempotency-Key is missing",
            Self::KeyMalformed(_) => "Idempotency-Key is malformed",
            Self::ScopeMissing => "Idempotency-Key has no scope",
            Self::BodyUnreadable => "The request is incomplete",
            Self::BodyTooLarge => "The request is too large",
            Self::KeyReused => "Idempotency-Key was used for another request",
            Self::InProgress => "The request is in progress",
            Self::ResponseNotKept => "The response is gone",
            Self::ResponseRefused => "The response cannot be recorded",
            Self::HandlerFailed => "The request failed",
            Self::StoreUnavailable => "Idempotency-Key cannot be looked up",
        }
    }

    fn detail(self, options: &Options) -> String {
        let text = match self {
            Self::KeyMissing => {
                "this operation needs an Idempotency-Key: create a new one for each request, and send the same one with each retry"
            }
            Self::KeyMalformed(why) => {
                return format!(
                    "the Idempotency-Key cannot be used: {why}; a UUID in quotes will do"
                );
            }
            Self::ScopeMissing => "the request has no scope for its Idempotency-Key",
            Self::BodyUnreadable => "the body of the request could not be read; send it again",
            Self::BodyTooLarge => {
                return format!(
                    "with an Idempotency-Key, the body of a request may have {} bytes at most",
                    options.request_bytes
                );
            }
            Self::KeyReused => {
                "this Idempotency-Key was used for another request; use a new key for each request"
            }
            Self::InProgress => {
                "a request with this Idempotency-Key is in progress; try again later, with the same key"
            }
            Self::ResponseNotKept => {
                "the request was carried out, and its response went to the first client; it cannot be replayed"
            }
            Self::ResponseRefused => {
                "the request was carried out, and its response is a stream, or too large to be recorded"
            }
            Self::HandlerFailed => "the request failed before its response was complete",
            Self::StoreUnavailable => {
                "nothing was done; try again later, with the same Idempotency-Key"
            }
        };
        text.to_owned()
    }

    fn details(self, options: &Options) -> Bytes {
        let r#type = match &options.help {
            Some(page) => format!("{page}#{}", self.code()),
            None => "about:blank".to_owned(),
        };
        // Without a type, the title is that of the status.
        let title = match options.help {
            Some(_) => self.title(),
            None => self.status().canonical_reason().unwrap_or(self.title()),
        };
        let (status, detail, code) = (self.status().as_u16(), self.detail(options), self.code());
        let details = Details { r#type, title, status, detail, code };
        serde_json::to_vec(&details).expect("texts and a number are JSON").into()
    }
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_its_type_title_and_retry_after() {
        let help = Some("https://shop.example/keys".to_owned());
        let options =
            Options { help, retry_after: Duration::from_millis(1500), ..Options::default() };
        let response = Problem::InProgress.response(&options);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        let details: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(details["type"], "https://shop.example/keys#in-progress");
        assert_eq!(
            (&details["status"], &details["title"]),
            (&409.into(), &"The request is in progress".into())
        );
        let plain = Problem::KeyMissing.response(&Options::default());
        let details: serde_json::Value = serde_json::from_slice(plain.body()).unwrap();
        assert_eq!(
            (&details["type"], &details["title"]),
            (&"about:blank".into(), &"Bad Request".into())
        );
    }
}
