//! The error type of the contract: its kind, its retry advice, the operation and the thing
//! concerned.
//!
//! What callers branch on in normal operation (a conflict, a lost lease, an empty queue) is an
//! outcome, never an error.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::numbers::Position;

/// The result of every call on a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The kind of a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The input is meaningless: an empty name, a duration of zero, an unknown URL option.
    Invalid,
    /// The input is well formed and exceeds a bound of [`limits`](crate::limits).
    LimitExceeded,
    /// An event id or commit id was used before, for something else.
    IdempotencyMismatch,
    /// The store cannot be reached, is busy, or is closed.
    Unavailable,
    /// The storage is full.
    Full,
    /// The storage failed to read or to write.
    Storage,
    /// This version of Tidelock cannot safely use the stored data.
    Incompatible,
    /// The store never gave out this position: it belongs to another store, or this store was
    /// restored from a backup and is behind.
    Rewound,
    /// The stored data is inconsistent: a bug, or a change by something other than Tidelock.
    Corrupt,
}

/// Whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryAdvice {
    /// The same call will fail in the same way.
    Never,
    /// Nothing happened; the same call may succeed later.
    Later,
    /// The outcome is unknown. The same commit sent again under its id returns the first result.
    Unknown,
}

/// The operation during which a store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreOperation {
    /// Opening, migrating or closing a store.
    Open,
    /// Checking input, before any store is called.
    Check,
    /// [`Store::commit`](crate::Store::commit).
    Commit,
    /// [`Store::read_stream`](crate::Store::read_stream).
    ReadStream,
    /// [`Store::read_feed`](crate::Store::read_feed).
    ReadFeed,
    /// [`Store::heads`](crate::Store::heads).
    Heads,
    /// [`Store::get`](crate::Store::get).
    Get,
    /// [`Store::scan`](crate::Store::scan).
    Scan,
    /// [`Store::lease`](crate::Store::lease).
    Lease,
    /// [`Store::renew`](crate::Store::renew).
    Renew,
    /// [`Store::items`](crate::Store::items).
    Items,
    /// [`Store::adjust`](crate::Store::adjust).
    Adjust,
    /// [`Store::now`](crate::Store::now).
    Now,
}

impl fmt::Display for StoreOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Check => "check",
            Self::Commit => "commit",
            Self::ReadStream => "read stream",
            Self::ReadFeed => "read feed",
            Self::Heads => "heads",
            Self::Get => "get",
            Self::Scan => "scan",
            Self::Lease => "lease",
            Self::Renew => "renew",
            Self::Items => "items",
            Self::Adjust => "adjust",
            Self::Now => "now",
        })
    }
}

/// A store call that failed without an outcome.
///
/// The message is one line that names the thing and the value. [`source`](Error::source) holds the
/// database's error, if there is one.
#[derive(Debug, Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    advice: RetryAdvice,
    operation: StoreOperation,
    context: String,
    /// Shared, because callers whose writes shared a transaction share its failure.
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error of this kind. Adapters create these at their boundary.
    pub fn new(
        kind: StoreErrorKind,
        advice: RetryAdvice,
        operation: StoreOperation,
        context: impl Into<String>,
    ) -> Self {
        Self { kind, advice, operation, context: context.into(), source: None }
    }

    /// Creates an error about meaningless input.
    pub fn invalid(context: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Invalid, RetryAdvice::Never, StoreOperation::Check, context)
    }

    /// Creates an error about input that exceeds a bound; the context names the bound.
    pub fn limit(context: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::LimitExceeded, RetryAdvice::Never, StoreOperation::Check, context)
    }

    /// Creates an error about an id that was used before for something else.
    pub fn mismatch(context: impl Into<String>) -> Self {
        Self::new(
            StoreErrorKind::IdempotencyMismatch,
            RetryAdvice::Never,
            StoreOperation::Commit,
            context,
        )
    }

    /// Creates an error about a position that the store never gave out.
    pub fn rewound(asked: Position, last: Position) -> Self {
        let context = format!(
            "position {asked} was never given out, the last one is {last}: it is from another store, or this one was \
             restored from a backup and is behind; decide whether to read on from {last} or from the start"
        );
        Self::new(StoreErrorKind::Rewound, RetryAdvice::Never, StoreOperation::ReadFeed, context)
    }

    /// Creates an error about inconsistent stored data.
    pub fn corrupt(context: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Corrupt, RetryAdvice::Never, StoreOperation::Check, context)
    }

    /// Sets the operation during which the error happened.
    #[must_use]
    pub fn during(mut self, operation: StoreOperation) -> Self {
        self.operation = operation;
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Prefixes the context with the thing that the error is about.
    #[must_use]
    pub fn about(mut self, thing: impl fmt::Display) -> Self {
        self.context = format!("{thing}: {}", self.context);
        self
    }

    /// Sets the retry advice.
    #[must_use]
    pub fn advising(mut self, advice: RetryAdvice) -> Self {
        self.advice = advice;
        self
    }

    /// The kind of error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether a retry can help.
    pub fn advice(&self) -> RetryAdvice {
        self.advice
    }

    /// The operation that failed.
    pub fn operation(&self) -> StoreOperation {
        self.operation
    }

    /// The thing, the value, and what to do.
    pub fn context(&self) -> &str {
        &self.context
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.context)?;
        match self.advice {
            RetryAdvice::Never => Ok(()),
            RetryAdvice::Later => {
                f.write_str(" (nothing was written; trying again later can help)")
            }
            RetryAdvice::Unknown => f.write_str(
                " (it may have been written: send the same commit with its id to learn the result)",
            ),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
