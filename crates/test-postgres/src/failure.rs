//! Errors of a test server, as a sentence for people.
//!
//! No code branches on it. A test unwraps it, so its debug form is the sentence too.

use std::error::Error;
use std::fmt;

/// A description of the failure.
#[derive(Clone)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Turns any error into a failure to do `what`, for `map_err`.
    pub(crate) fn to<E: Error>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self(format!("cannot {what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Failure {}
