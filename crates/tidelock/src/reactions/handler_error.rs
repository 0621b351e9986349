//! Why a handler or a route failed, and whether trying again can help.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::error::ErrorKind;

/// A handler's failure. Every error becomes one with `?` and is tried again; what trying again
/// cannot help is made with [`HandlerError::fatal`].
///
/// ```
/// # use tidelock::reactions::HandlerError;
/// fn parse(text: &str) -> Result<u32, HandlerError> {
///     text.parse().map_err(HandlerError::fatal) // the same text will not be a number tomorrow
/// }
/// assert!(!parse("seven").unwrap_err().is_retryable());
/// ```
pub struct HandlerError {
    error: Box<dyn Error + Send + Sync>,
    retryable: bool,
}

impl HandlerError {
    /// To be tried again, as the reaction's options have it.
    pub fn again(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), retryable: true }
    }

    /// Not to be tried again: the item is blocked at once.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), retryable: false }
    }

    /// Whether it is to be tried again.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// What went wrong.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    /// Retryable, unless it is a [`tidelock::Error`](crate::Error) about invalid or oversized input:
    /// the next attempt would fail in the same way.
    fn from(error: E) -> Self {
        let input = |error: &crate::Error| {
            matches!(error.kind(), ErrorKind::Invalid | ErrorKind::LimitExceeded)
        };
        let is_input = (&error as &dyn Any).downcast_ref::<crate::Error>().is_some_and(input);
        Self { error: Box::new(error), retryable: !is_input }
    }
}

/// What went wrong; whether trying again can help is not in it.
impl From<HandlerError> for Box<dyn Error + Send + Sync> {
    fn from(failure: HandlerError) -> Self {
        failure.error
    }
}

/// The error and everything that caused it, in one line.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
