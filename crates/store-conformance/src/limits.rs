//! Limits and bad input: accepted at the limit, refused one past it, with nothing written.

mod commits;
mod json;
mod names;
mod pages;
mod times;

use std::fmt::Display;

use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind};

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    [names::cases(), json::cases(), commits::cases(), pages::cases(), times::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// The error is about a limit, and names it.
fn assert_over(error: &StoreError, limit: impl Display) {
    assert_eq!(
        (error.kind(), error.advice()),
        (StoreErrorKind::LimitExceeded, RetryAdvice::Never),
        "{error}"
    );
    assert!(
        error.to_string().contains(&format!("{limit}")),
        "{error} does not name the limit {limit}"
    );
}

/// The error is about meaningless input, and names this.
fn assert_invalid(error: &StoreError, what: &str) {
    assert_eq!(
        (error.kind(), error.advice()),
        (StoreErrorKind::Invalid, RetryAdvice::Never),
        "{error}"
    );
    assert!(error.to_string().contains(what), "{error} does not name {what:?}");
}
