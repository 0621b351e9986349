//! Handler errors: why a handler or a route failed, and whether to retry.

use std::error::Error;
use std::fmt;

/// The error of a handler, a route or a step.
///
/// Every error converts into it with `?` and is retried. An error that a retry cannot resolve is
/// made with [`HandlerError::fatal`].
///
/// # Examples
///
/// ```
/// # use tidelock::reactions::HandlerError;
/// fn parse(text: &str) -> Result<u32, HandlerError> {
///     text.parse().map_err(HandlerError::fatal) // a retry would read the same text
/// }
/// assert!(!parse("seven").unwrap_err().is_retryable());
/// ```
pub struct HandlerError {
    error: Box<dyn Error + Send + Sync>,
    retryable: bool,
}

impl HandlerError {
    /// Creates an error that is retried according to the reaction's options.
    pub fn again(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), retryable: true }
    }

    /// Creates an error that is not retried: the item is blocked at once.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), retryable: false }
    }

    /// Whether the error is retried.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// Returns the underlying error.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::again(error)
    }
}

/// Converts to the underlying error; whether it is retryable is lost.
impl From<HandlerError> for Box<dyn Error + Send + Sync> {
    fn from(failure: HandlerError) -> Self {
        failure.error
    }
}

/// The error and its causes, in one line.
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
