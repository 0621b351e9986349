//! Why a handler or a route failed, and whether trying again can help.

use std::error::Error;
use std::fmt;

/// A handler's failure. Every error becomes one with `?` and is tried again; what trying again
/// cannot help is made with [`Failure::fatal`].
///
/// ```
/// # use tidelock::reactions::Failure;
/// fn parse(text: &str) -> Result<u32, Failure> {
///     text.parse().map_err(Failure::fatal) // the same text will not be a number tomorrow
/// }
/// assert!(!parse("seven").unwrap_err().is_retryable());
/// ```
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    retryable: bool,
}

impl Failure {
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

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::again(error)
    }
}

/// What went wrong; whether trying again can help is not in it.
impl From<Failure> for Box<dyn Error + Send + Sync> {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// The error and everything that caused it, in one line.
impl fmt::Display for Failure {
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

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
