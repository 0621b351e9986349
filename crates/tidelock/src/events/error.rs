//! Errors of loads and decisions.

use tidelock_store::{Conflict, ExpectedVersion, StoreError, StreamName, StreamState, Version};

use crate::recorded::{ReadError, Unreadable};

/// Why a state could not be loaded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// An event of the stream cannot be decoded.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The start of the stream was trimmed, and no readable snapshot covers it.
    #[error(
        "stream {stream:?}: events before version {first} were trimmed away, and no snapshot that this program can read \
         reaches that far: restore the snapshot, or read it with the program that wrote it"
    )]
    Trimmed {
        /// The stream.
        stream: StreamName,
        /// The oldest version that is left.
        first: Version,
    },
    /// The stream was closed permanently, and its events were moved to the archive.
    #[error("stream {stream:?}: closed at version {version}, and its events are in the archive")]
    Closed {
        /// The stream.
        stream: StreamName,
        /// The last version.
        version: Version,
    },
    /// The stream has not reached the requested version.
    #[error("stream {stream:?}: asked for version {asked}, found {found}")]
    NotReached {
        /// The stream.
        stream: StreamName,
        /// The requested version.
        asked: Version,
        /// The stream's state.
        found: StreamState,
    },
    /// The store failed, or the name is invalid.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ReadError> for LoadError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unreadable(unreadable) => Self::Unreadable(unreadable),
            ReadError::Store(error) => Self::Store(error),
        }
    }
}

/// A stream that is not at the version a decision expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionConflict {
    /// The expected version.
    pub expected: ExpectedVersion,
    /// The stream's state.
    pub found: StreamState,
}

/// Why a decision was not executed.
///
/// Nothing was written, unless a `Store` error says that the outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError<X> {
    /// The decision returned an error.
    #[error("{0}")]
    Refused(X),
    /// The stream is not at the version that the caller named.
    #[error("stream {stream:?}: expected {}, found {}", .conflict.expected, .conflict.found)]
    Conflict {
        /// The stream.
        stream: StreamName,
        /// The expected and the actual version.
        conflict: VersionConflict,
    },
    /// Every attempt conflicted with another writer.
    #[error(
        "stream {stream:?}: gave up after {attempts} attempts; at the last one it was expected at {}, and was at {}",
        .last.expected, .last.found
    )]
    GaveUp {
        /// The stream.
        stream: StreamName,
        /// Number of attempts.
        attempts: u32,
        /// The last conflict.
        last: VersionConflict,
    },
    /// The deadline passed while the decision waited behind others in this process.
    #[error(
        "stream {stream:?}: the deadline passed while waiting in the queue; nothing was decided"
    )]
    WaitedTooLong {
        /// The stream.
        stream: StreamName,
    },
    /// The stream was closed permanently.
    #[error("stream {stream:?}: closed at version {version}, takes no more events")]
    Closed {
        /// The stream.
        stream: StreamName,
        /// The last version.
        version: Version,
    },
    /// The events contain personal data about an erased subject.
    #[error(
        "subject {subject:?} was erased: no personal data about it can be added; a person who returns is a new subject"
    )]
    SubjectErased {
        /// The subject.
        subject: String,
    },
    /// A part that the caller added to the commit was rejected.
    #[error(transparent)]
    Part(Conflict),
    /// The state could not be loaded.
    #[error(transparent)]
    Load(LoadError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<X> From<LoadError> for ExecuteError<X> {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => Self::Store(error),
            LoadError::Closed { stream, version } => Self::Closed { stream, version },
            other => Self::Load(other),
        }
    }
}

impl<X> ExecuteError<X> {
    /// Converts the reason of a refusal.
    pub fn map_refused<Y>(self, map: impl FnOnce(X) -> Y) -> ExecuteError<Y> {
        match self {
            Self::Refused(reason) => ExecuteError::Refused(map(reason)),
            Self::Conflict { stream, conflict } => ExecuteError::Conflict { stream, conflict },
            Self::GaveUp { stream, attempts, last } => {
                ExecuteError::GaveUp { stream, attempts, last }
            }
            Self::WaitedTooLong { stream } => ExecuteError::WaitedTooLong { stream },
            Self::Closed { stream, version } => ExecuteError::Closed { stream, version },
            Self::SubjectErased { subject } => ExecuteError::SubjectErased { subject },
            Self::Part(conflict) => ExecuteError::Part(conflict),
            Self::Load(error) => ExecuteError::Load(error),
            Self::Store(error) => ExecuteError::Store(error),
        }
    }

    /// Returns the reason of a refusal; `None` for other errors.
    pub fn refused(self) -> Option<X> {
        match self {
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }
}
