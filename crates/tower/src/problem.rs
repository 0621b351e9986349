//! What a client is told when it gets no response of the handler: problem details, as RFC 9457 has
//! them.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::options::Options;

/// Why a request with a key, or without one, gets no response of the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It needs a key and has none.
    KeyMissing,
    /// Its key cannot be one, and why.
    KeyMalformed(&'static str),
    /// Nothing says whom it is for.
    ScopeMissing,
    /// Its body broke off.
    BodyUnreadable,
    /// Its body is too large to be compared.
    BodyTooLarge,
    /// The key was used for another request.
    KeyReused,
    /// Somebody is at it.
    InProgress,
    /// It was done; the response could not be kept, and went to whoever asked first.
    ResponseNotKept,
    /// It was done; the response could not be kept, and nobody gets it.
    ResponseRefused,
    /// The handler panicked, or its response broke off.
    HandlerFailed,
    /// The store does not answer.
    StoreUnavailable,
}

/// What is sent.
#[derive(Debug, Serialize)]
struct Details<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
    code: &'a str,
}

impl Problem {
    /// The response that says so.
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

    /// By which programs tell it from others.
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
            Self::ScopeMissing => "Idempotency-Key belongs to nobody",
            Self::BodyUnreadable => "The request broke off",
            Self::BodyTooLarge => "The request is too large",
            Self::KeyReused => "Idempotency-Key was used for another request",
            Self::InProgress => "The request is in progress",
            Self::ResponseNotKept => "The response is gone",
            Self::ResponseRefused => "The response cannot be kept",
            Self::HandlerFailed => "The request failed",
            Self::StoreUnavailable => "Idempotency-Key cannot be looked up",
        }
    }

    fn detail(self, options: &Options) -> String {
        let text = match self {
            Self::KeyMissing => {
                "this operation needs an Idempotency-Key: make a fresh one for each request, and send the same again with each retry"
            }
            Self::KeyMalformed(why) => {
                return format!(
                    "the Idempotency-Key cannot be used: {why}; a UUID in quotes will do"
                );
            }
            Self::ScopeMissing => "nothing in the request says whose Idempotency-Key it is",
            Self::BodyUnreadable => {
                "the body of the request could not be read to its end; send it again"
            }
            Self::BodyTooLarge => {
                return format!(
                    "with an Idempotency-Key, the body of a request may have {} bytes at most",
                    options.request_bytes
                );
            }
            Self::KeyReused => {
                "this Idempotency-Key came with another request before; use a fresh key for each request"
            }
            Self::InProgress => {
                "a request with this Idempotency-Key is being worked on; ask again later, with the same key"
            }
            Self::ResponseNotKept => {
                "the request was carried out, and its response went to whoever asked first; it cannot be given again"
            }
            Self::ResponseRefused => {
                "the request was carried out, and its response is a stream, or too large to be kept"
            }
            Self::HandlerFailed => "the request could not be carried out to its end",
            Self::StoreUnavailable => {
                "nothing was done; ask again later, with the same Idempotency-Key"
            }
        };
        text.to_owned()
    }

    fn details(self, options: &Options) -> Bytes {
        let r#type = match &options.help {
            Some(page) => format!("{page}#{}", self.code()),
            None => "about:blank".to_owned(),
        };
        // What has no type of its own has the title of its status.
        let title = match options.help {
            Some(_) => self.title(),
            None => self.status().canonical_reason().unwrap_or(self.title()),
        };
        let (status, detail, code) = (self.status().as_u16(), self.detail(options), self.code());
        let details = Details { r#type, title, status, detail, code };
        serde_json::to_vec(&details).expect("texts and a number are JSON").into()
    }
}

/// Whole seconds, and rather too late than too early.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_it_is_where_it_is_explained_and_when_to_come_back() {
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
