//! Handler errors: why a handler or a route failed, and whether to retry.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::error::ErrorKind;
use crate::runs::StepError;

/// The error of a handler, a route or a step.
///
/// Every error converts into it with `?` and is retried. An error that a retry cannot resolve is
/// made with [`HandlerError::fatal`].
///
/// # Examples
///
/// ```
/// # use tidelock::HandlerError;
/// fn parse(text: &str) -> Result<u32, HandlerError> {
///     text.parse().map_err(HandlerError::fatal) // a retry would read the same text
/// }
/// assert!(!parse("seven").unwrap_err().is_retryable());
/// ```
pub struct HandlerError {
    error: Box<dyn Error + Send + Sync>,
    retryable: bool,
    code: Option<String>,
}

impl HandlerError {
    /// Creates an error that is retried according to the reaction's options.
    pub fn again(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), retryable: true, code: None }
    }

    /// Creates an error that is not retried: the item is blocked at once.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), retryable: false, code: None }
    }

    /// Sets a code by which other code recognizes the error, such as `"card-declined"`. A run
    /// records the code of a failed step, and that of its own failure.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Returns the code, if it has one.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
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
    /// Retryable, unless it is a [`tidelock::Error`](crate::Error) about invalid or oversized
    /// input: the next attempt would fail in the same way.
    fn from(error: E) -> Self {
        let input = |error: &crate::Error| {
            matches!(error.kind(), ErrorKind::Invalid | ErrorKind::LimitExceeded)
        };
        let is_input = (&error as &dyn Any).downcast_ref::<crate::Error>().is_some_and(input);
        Self { error: Box::new(error), retryable: !is_input, code: None }
    }
}

/// Converts to the underlying error; whether it is retryable is lost.
impl From<HandlerError> for Box<dyn Error + Send + Sync> {
    fn from(failure: HandlerError) -> Self {
        match failure.code {
            Some(code) => Box::new(Coded { code, error: failure.error }),
            None => failure.error,
        }
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

/// An error with its code.
#[derive(Debug)]
struct Coded {
    code: String,
    error: Box<dyn Error + Send + Sync>,
}

impl Error for Coded {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// The first code in a chain of errors.
pub(crate) fn code_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e str> {
    let own = match error.downcast_ref::<Coded>() {
        Some(coded) => Some(coded.code.as_str()),
        None => error.downcast_ref::<StepError>().and_then(StepError::code),
    };
    own.or_else(|| code_of(error.source()?))
}
