//! The one error of the contract: what kind, what to do about it, during what, on which thing.
//!
//! Whatever callers branch on in normal life (a conflict, a lost lease, an empty queue) is an
//! outcome and never comes through here.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::numbers::Position;

/// The result of every call on a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The input cannot mean anything: an empty name, a duration of zero, an unknown URL option.
    Invalid,
    /// The input is well formed and larger than a bound in [`limits`](crate::limits).
    LimitExceeded,
    /// An event id or a commit id was used before, for something else.
    IdempotencyMismatch,
    /// The store could not be reached, or is busy, or is shut.
    Unavailable,
    /// There is no room left where the store keeps its data.
    Full,
    /// The storage under the store failed to read or to write.
    Storage,
    /// What is stored is not what this version of Tidelock can safely use.
    Incompatible,
    /// A position was given that this store never gave out: it is another store's, or this one was
    /// restored from a backup and is behind.
    Rewound,
    /// What is stored makes no sense. This is a bug, or the work of something other than Tidelock.
    Corrupt,
}

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryAdvice {
    /// The same call will fail in the same way.
    Never,
    /// Nothing happened; the same call may succeed later.
    Later,
    /// It may have happened. The same commit sent again, with its id, gives the first one's result.
    Unknown,
}

/// What the store was asked to do when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreOperation {
    /// Opening, migrating or closing a store.
    Open,
    /// Checking input, before any store was asked.
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

/// A call on a store that gave no outcome.
///
/// Its message is one line that names the thing and the value; [`source`](Error::source) holds what
/// the database said, if it said anything.
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
    /// An error of this kind; adapters make these at their border.
    pub fn new(
        kind: StoreErrorKind,
        advice: RetryAdvice,
        operation: StoreOperation,
        context: impl Into<String>,
    ) -> Self {
        Self { kind, advice, operation, context: context.into(), source: None }
    }

    /// Input that cannot mean anything.
    pub fn invalid(context: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Invalid, RetryAdvice::Never, StoreOperation::Check, context)
    }

    /// Input larger than a bound; the context names the bound.
    pub fn limit(context: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::LimitExceeded, RetryAdvice::Never, StoreOperation::Check, context)
    }

    /// An id used before for something else.
    pub fn mismatch(context: impl Into<String>) -> Self {
        Self::new(
            StoreErrorKind::IdempotencyMismatch,
            RetryAdvice::Never,
            StoreOperation::Commit,
            context,
        )
    }

    /// A position that the store never gave out.
    pub fn rewound(asked: Position, last: Position) -> Self {
        let context = format!(
            "position {asked} was never given out, the last one is {last}: it is from another store, or this one was \
             restored from a backup and is behind; decide whether to read on from {last} or from the start"
        );
        Self::new(StoreErrorKind::Rewound, RetryAdvice::Never, StoreOperation::ReadFeed, context)
    }

    /// Stored data that makes no sense.
    pub fn corrupt(context: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Corrupt, RetryAdvice::Never, StoreOperation::Check, context)
    }

    /// The same error with the operation during which it happened.
    #[must_use]
    pub fn during(mut self, operation: StoreOperation) -> Self {
        self.operation = operation;
        self
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The same error about this thing.
    #[must_use]
    pub fn about(mut self, thing: impl fmt::Display) -> Self {
        self.context = format!("{thing}: {}", self.context);
        self
    }

    /// The same error with other advice.
    #[must_use]
    pub fn advising(mut self, advice: RetryAdvice) -> Self {
        self.advice = advice;
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether trying again can help.
    pub fn advice(&self) -> RetryAdvice {
        self.advice
    }

    /// What the store was asked to do.
    pub fn operation(&self) -> StoreOperation {
        self.operation
    }

    /// Which thing, which value, and what to do.
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
