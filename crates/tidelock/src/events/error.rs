//! What can come of a load or a decision, besides the wish of the caller.

use tidelock_store::{Conflict, ExpectedVersion, StoreError, StreamName, StreamState, Version};

use crate::recorded::{ReadError, Unreadable};

/// A state that could not be loaded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// An event of the stream is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The beginning of the stream was trimmed away, and there is no snapshot that replaces it.
    #[error(
        "stream {stream:?}: events before version {first} were trimmed away, and no snapshot that this program can read \
         reaches that far: restore the snapshot, or read it with the program that wrote it"
    )]
    Trimmed {
        /// Which stream.
        stream: StreamName,
        /// The oldest version that could be read.
        first: Version,
    },
    /// The stream was closed for good, and its events are gone from it.
    #[error("stream {stream:?}: closed at version {version}, and its events are in the archive")]
    Closed {
        /// Which stream.
        stream: StreamName,
        /// At this version.
        version: Version,
    },
    /// A version was asked for that the stream has not reached.
    #[error("stream {stream:?}: asked for version {asked}, found {found}")]
    NotReached {
        /// Which stream.
        stream: StreamName,
        /// What was asked for.
        asked: Version,
        /// What it is.
        found: StreamState,
    },
    /// The store failed, or the name is none.
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

/// A stream that is not where a decision expected it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionConflict {
    /// Where it was expected.
    pub expected: ExpectedVersion,
    /// Where it is.
    pub found: StreamState,
}

/// A decision that did not become events. Nothing was written, unless a `Store` error says that it
/// may have been.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError<X> {
    /// The decision said no.
    #[error("{0}")]
    Refused(X),
    /// The stream is not at the version that the caller named.
    #[error("stream {stream:?}: expected {}, found {}", .conflict.expected, .conflict.found)]
    Conflict {
        /// Which stream.
        stream: StreamName,
        /// What was expected, and what is there.
        conflict: VersionConflict,
    },
    /// Others were quicker, every time.
    #[error(
        "stream {stream:?}: gave up after {attempts} attempts; at the last one it was expected at {}, and was at {}",
        .last.expected, .last.found
    )]
    GaveUp {
        /// Which stream.
        stream: StreamName,
        /// How many there were.
        attempts: u32,
        /// The last conflict.
        last: VersionConflict,
    },
    /// The deadline passed while others of this process had their turn.
    #[error("stream {stream:?}: the deadline passed while waiting for a turn; nothing was decided")]
    WaitedTooLong {
        /// Which stream.
        stream: StreamName,
    },
    /// The stream was closed for good.
    #[error("stream {stream:?}: closed at version {version}, takes no more events")]
    Closed {
        /// Which stream.
        stream: StreamName,
        /// At this version.
        version: Version,
    },
    /// Personal data about somebody who was erased.
    #[error(
        "subject {subject:?} was erased: no personal data about it can be added; somebody who comes back is a new subject"
    )]
    SubjectErased {
        /// Who.
        subject: String,
    },
    /// A part that the caller added to the commit did not hold.
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
    /// The same, with another reason for a refusal.
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

    /// Why the decision said no, if it did.
    pub fn refused(self) -> Option<X> {
        match self {
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }
}
