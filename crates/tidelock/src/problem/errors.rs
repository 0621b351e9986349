//! The problem of each error: its status, its code, and its fields.

use std::error::Error as StdError;

use http::StatusCode;
use tidelock_store::{RetryAdvice, StoreError};

use super::{Problem, SOON};
use crate::claims::{ClaimError, FingerprintMismatch, LockBusy, QuotaExceeded, RateExceeded};
use crate::error::{BoxError, Error, ErrorKind};
use crate::runs::{InvalidName, RunError};
use crate::scopes::ScopeError;

impl From<Error> for Problem {
    /// By the pattern's own error, or else by the kind. The text of a failure of the application's
    /// own code is logged, and not sent.
    fn from(error: Error) -> Self {
        let (kind, is_retryable) = (error.kind(), error.is_retryable());
        let cause = Err(error.into_cause())
            .or_else(as_a::<StoreError>)
            .or_else(as_a::<ClaimError>)
            .or_else(as_a::<LockBusy>)
            .or_else(as_a::<QuotaExceeded>)
            .or_else(as_a::<RateExceeded>)
            .or_else(as_a::<FingerprintMismatch>)
            .or_else(as_a::<ScopeError>)
            .or_else(as_a::<RunError>)
            .or_else(as_a::<InvalidName>);
        let cause = match cause {
            Ok(problem) => return problem,
            Err(cause) => cause,
        };
        let (status, code) = of_kind(kind);
        let problem = match kind {
            ErrorKind::Failed => {
                tracing::warn!(%cause, "a request failed");
                Self::new(status, code, "the request failed; the server's log has details")
            }
            _ => Self::new(status, code, cause.to_string()),
        };
        if is_retryable { problem.retry_after(SOON) } else { problem }
    }
}

fn as_a<E: StdError + 'static>(cause: BoxError) -> Result<Problem, BoxError>
where
    Problem: From<E>,
{
    cause.downcast::<E>().map(|error| (*error).into())
}

fn of_kind(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::Refused => (StatusCode::CONFLICT, "refused"),
        ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
        ErrorKind::Contended => (StatusCode::CONFLICT, "contended"),
        ErrorKind::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, "timed-out"),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not-found"),
        ErrorKind::AlreadyExists => (StatusCode::CONFLICT, "already-exists"),
        ErrorKind::Closed => (StatusCode::CONFLICT, "closed"),
        ErrorKind::Gone => (StatusCode::GONE, "gone"),
        ErrorKind::Busy => (StatusCode::CONFLICT, "busy"),
        ErrorKind::Exceeded => (StatusCode::TOO_MANY_REQUESTS, "quota-exceeded"),
        ErrorKind::LeaseLost => (StatusCode::CONFLICT, "fence-lost"),
        ErrorKind::IdempotencyMismatch => (StatusCode::CONFLICT, "id-reused"),
        ErrorKind::SubjectErased => (StatusCode::GONE, "subject-erased"),
        ErrorKind::Cancelled => (StatusCode::CONFLICT, "cancelled"),
        ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
        ErrorKind::LimitExceeded => (StatusCode::BAD_REQUEST, "limit-exceeded"),
        ErrorKind::Rewound => (StatusCode::GONE, "position-unknown"),
        ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable"),
        ErrorKind::Full => (StatusCode::INSUFFICIENT_STORAGE, "store-full"),
        ErrorKind::Storage => (StatusCode::INTERNAL_SERVER_ERROR, "store-failed"),
        ErrorKind::Incompatible => (StatusCode::INTERNAL_SERVER_ERROR, "store-incompatible"),
        ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "store-corrupt"),
        ErrorKind::Unreadable => (StatusCode::INTERNAL_SERVER_ERROR, "unreadable"),
        ErrorKind::Reentered => (StatusCode::INTERNAL_SERVER_ERROR, "reentered"),
        ErrorKind::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (advice, context) = (error.advice(), error.context().to_owned());
        let (status, code) = of_kind(Error::from(error).kind());
        let problem = Self::new(status, code, context);
        match advice {
            RetryAdvice::Never => problem,
            RetryAdvice::Later => problem.retry_after(SOON),
            RetryAdvice::Unknown => problem.with("outcome", "unknown").map_detail(|context| {
                format!(
                    "{context}; it may have been carried out: check, or send the same again with its ids"
                )
            }),
        }
    }
}

impl From<ClaimError> for Problem {
    fn from(error: ClaimError) -> Self {
        let detail = error.to_string();
        match error {
            ClaimError::Lost { fence, .. } => {
                Self::conflict("fence-lost", detail).with("fence", fence)
            }
            ClaimError::Over { fence, .. } => {
                Self::conflict("claim-over", detail).with("fence", fence)
            }
            ClaimError::StillHeld { by, until, .. } => {
                Self::conflict("claim-held", detail).with("by", by).with("until", until)
            }
            ClaimError::Free { .. } => Self::conflict("claim-free", detail),
            ClaimError::Settled { .. } => Self::conflict("reservation-over", detail),
            ClaimError::Failed { .. } => Self::conflict("claim-failed", detail),
            ClaimError::Refused { .. } => Self::conflict("conflict", detail),
            ClaimError::Contended { .. } => Self::contended(detail),
            ClaimError::Store(error) => error.into(),
            ClaimError::Unreadable { .. } => Self::internal("claim-unreadable", detail),
        }
    }
}

impl From<LockBusy> for Problem {
    fn from(busy: LockBusy) -> Self {
        Self::conflict("lock-held", busy.to_string())
            .with("by", &busy.by)
            .with("since", busy.since)
            .with("until", busy.until)
    }
}

impl From<QuotaExceeded> for Problem {
    fn from(exceeded: QuotaExceeded) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "quota-exceeded", exceeded.to_string())
            .with("used", exceeded.used)
            .with("limit", exceeded.limit)
            .with("requested", exceeded.requested)
            .with("resets_at", exceeded.resets_at)
    }
}

impl From<RateExceeded> for Problem {
    fn from(exceeded: RateExceeded) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate-exceeded", exceeded.to_string())
            .with("requested", exceeded.requested)
            .with("possible_at", exceeded.possible_at)
            .retry_after(exceeded.retry_after)
    }
}

impl From<FingerprintMismatch> for Problem {
    fn from(first: FingerprintMismatch) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", first.to_string())
            .with("outcome", "mismatch")
            .with("by", &first.by)
    }
}

impl From<ScopeError> for Problem {
    fn from(error: ScopeError) -> Self {
        let detail = error.to_string();
        match error {
            ScopeError::Moved { expected, found, .. } => {
                Self::conflict("revision-conflict", detail)
                    .with("expected", expected)
                    .with("found", found)
            }
            ScopeError::Taken { revision, .. } => {
                Self::conflict("scope-taken", detail).with("found", revision)
            }
            ScopeError::Gone { revision: Some(revision), .. } => {
                Self::new(StatusCode::GONE, "scope-gone", detail).with("revision", revision)
            }
            ScopeError::Gone { revision: None, .. } => Self::not_found("no-scope", detail),
            ScopeError::Unfit { .. } | ScopeError::Rejected { .. } => {
                Self::conflict("scope-unfit", detail)
            }
            ScopeError::Contended { .. } => Self::contended(detail),
            ScopeError::TimedOut { .. } => Self::unavailable("timed-out", detail),
            ScopeError::Store(error) => error.into(),
            _ => Self::internal("scope-unreadable", detail),
        }
    }
}

impl From<InvalidName> for Problem {
    fn from(error: InvalidName) -> Self {
        Self::bad_request("name-invalid", error.to_string())
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        let detail = error.to_string();
        match error {
            RunError::Name(error) => error.into(),
            RunError::NoRun { .. } => Self::not_found("no-run", detail),
            RunError::Removed { .. } => Self::new(StatusCode::GONE, "run-removed", detail),
            RunError::Ended { state, .. } => {
                Self::conflict("run-ended", detail).with("state", state)
            }
            RunError::OtherRun { .. } => Self::conflict("other-run", detail),
            RunError::Input { .. } => Self::bad_request("input-invalid", detail),
            RunError::UnknownWorkflow { .. } => Self::conflict("workflow-unknown", detail),
            RunError::OtherSignal { .. } => Self::conflict("other-signal", detail),
            RunError::NotFailed { state, .. } => {
                Self::conflict("run-not-failed", detail).with("state", state)
            }
            RunError::Compensated { .. } => Self::conflict("run-compensated", detail),
            RunError::OutOfTime { .. } => Self::conflict("run-out-of-time", detail),
            RunError::NotAwaitingVerdict { .. } => {
                Self::conflict("step-not-awaiting-verdict", detail)
            }
            RunError::Contended { .. } => Self::contended(detail),
            RunError::Store(error) => error.into(),
            _ => Self::conflict("run-refused", detail),
        }
    }
}

impl Problem {
    fn contended(detail: String) -> Self {
        Self::conflict("contended", detail).retry_after(SOON)
    }
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;
    use tidelock_store::{StoreErrorKind, StoreOperation};

    use super::*;

    fn of(error: impl Into<Error>) -> (u16, &'static str) {
        let problem = Problem::from(error.into());
        (problem.status().as_u16(), problem.code())
    }

    #[test]
    fn an_unavailable_store_has_a_retry_after() {
        let kind = StoreErrorKind::Unavailable;
        let away = StoreError::new(kind, RetryAdvice::Later, StoreOperation::Commit, "away");
        let response = Problem::from(Error::from(away)).into_http();
        assert_eq!(
            (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
            (503, &1.into())
        );
    }

    #[test]
    fn an_error_has_the_status_of_its_pattern_or_of_its_kind() {
        let (scope, run) = ("cart/7".to_owned(), crate::runs::RunId::new("order-7").unwrap());
        assert_eq!(of(RunError::NoRun { run }), (404, "no-run"));
        assert_eq!(
            of(ScopeError::<std::fmt::Error>::Contended { scope, attempts: 3 }),
            (409, "contended")
        );
        assert_eq!(of(ScopeError::Refused(std::fmt::Error)), (409, "refused"));
    }

    #[test]
    fn the_text_of_an_internal_failure_is_not_sent() {
        let failed = crate::HandlerError::fatal(std::io::Error::other("canary"));
        let response = Problem::from(Error::from(failed)).into_http();
        assert!(response.status() == 500 && !response.body().contains("canary"), "{response:?}");
    }
}
