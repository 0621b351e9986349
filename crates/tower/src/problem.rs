//! Error responses of the layer: problem details according to RFC 9457.

use bytes::Bytes;
use http::{Response, StatusCode};
use tidelock::problem;

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

impl Problem {
    /// The response for this problem.
    pub(crate) fn response(self, options: &Options) -> Response<Bytes> {
        let (status, code, title) = self.kind();
        let problem = problem::Problem::new(status, code, self.detail(options));
        let problem = match &options.help {
            Some(page) => problem.typed(format!("{page}#{code}"), title),
            // Without a type, the title is that of the status.
            None => problem.typed("about:blank", status.canonical_reason().unwrap_or(title)),
        };
        let response = match self {
            Self::InProgress | Self::StoreUnavailable => problem.retry_after(options.retry_after),
            _ => problem,
        };
        response.into_http().map(Bytes::from)
    }

    /// Identifies the problem to programs.
    pub(crate) fn code(self) -> &'static str {
        self.kind().1
    }

    /// The status, the code and the title.
    fn kind(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Self::KeyMissing => (S::BAD_REQUEST, "key-missing", "Idempotency-Key is missing"),
            Self::KeyMalformed(_) => {
                (S::BAD_REQUEST, "key-malformed", "Idempotency-Key is malformed")
            }
            Self::ScopeMissing => (S::BAD_REQUEST, "scope-missing", "Idempotency-Key has no scope"),
            Self::BodyUnreadable => {
                (S::BAD_REQUEST, "body-unreadable", "The request is incomplete")
            }
            Self::BodyTooLarge => {
                (S::PAYLOAD_TOO_LARGE, "body-too-large", "The request is too large")
            }
            Self::KeyReused => {
                let title = "Idempotency-Key was used for another request";
                (S::UNPROCESSABLE_ENTITY, "key-reused", title)
            }
            Self::InProgress => (S::CONFLICT, "in-progress", "The request is in progress"),
            Self::ResponseNotKept => (S::GONE, "response-not-kept", "The response is gone"),
            Self::ResponseRefused => {
                (S::INTERNAL_SERVER_ERROR, "response-refused", "The response cannot be recorded")
            }
            Self::HandlerFailed => {
                (S::INTERNAL_SERVER_ERROR, "handler-failed", "The request failed")
            }
            Self::StoreUnavailable => {
                let title = "Idempotency-Key cannot be looked up";
                (S::SERVICE_UNAVAILABLE, "store-unavailable", title)
            }
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header::RETRY_AFTER;

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
