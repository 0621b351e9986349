//! Errors of a closing.

use tidelock_store::{Conflict, StoreError, StreamName, Timestamp, Version};

use super::archive::ArchiveFailure;
use crate::events::LoadError;
use crate::reactions::Unfinished;

/// Why a closing did not finish.
///
/// Nothing is lost: no event is removed before the archive has it, and the same call continues
/// where this one stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The stream does not exist.
    #[error("stream {stream:?}: it does not exist, so there is nothing to close")]
    NoStream {
        /// The stream.
        stream: StreamName,
    },
    /// There are no events to remove: they are removed already, or are among those to keep.
    #[error("stream {stream:?}: there is nothing to clear away at version {version}")]
    NothingToClear {
        /// The stream.
        stream: StreamName,
        /// Its version.
        version: Version,
    },
    /// The stream is closed, so there is no window to move.
    #[error(
        "stream {stream:?}: it is closed at version {version}, so there is no window to move; close() clears it away"
    )]
    Shut {
        /// The stream.
        stream: StreamName,
        /// Its version.
        version: Version,
    },
    /// Every attempt conflicted with other writers of the stream or its snapshot.
    #[error(
        "stream {stream:?}: every attempt to close it conflicted with other writers: {conflict}"
    )]
    Refused {
        /// The stream.
        stream: StreamName,
        /// The last conflict.
        conflict: Conflict,
    },
    /// Another caller is closing the stream.
    #[error(
        "stream {stream:?}: another caller is closing it; if that process died, try again in 15 seconds"
    )]
    Busy {
        /// The stream.
        stream: StreamName,
        /// When its lease expires, unless it is renewed.
        until: Option<Timestamp>,
    },
    /// An earlier closing with another plan is not finished.
    #[error(
        "stream {stream:?}: {begun} was begun and is not done; finish that first, by calling it again"
    )]
    OtherPlan {
        /// The stream.
        stream: StreamName,
        /// The plan of the earlier closing.
        begun: String,
    },
    /// A reaction has not handled all events.
    #[error("stream {stream:?}: {unfinished} (or close the stream ignoring it)")]
    Unfinished {
        /// The stream.
        stream: StreamName,
        /// The unfinished work.
        unfinished: Unfinished,
    },
    /// The archive returned an error.
    #[error("stream {stream:?}: the archive did not take versions {from} to {to}: {source}")]
    Archive {
        /// The stream.
        stream: StreamName,
        /// First version of the page.
        from: Version,
        /// Last version of the page.
        to: Version,
        /// The archive's error.
        source: ArchiveFailure,
    },
    /// The stream is to continue, but its aggregate has no snapshots to continue from.
    #[error(
        "stream {stream:?}: to go on without its events it needs a snapshot; let Aggregate::snapshots say when one is kept"
    )]
    NoSnapshot {
        /// The stream.
        stream: StreamName,
    },
    /// The stream is to continue, but its state contains personal data, which is not stored in
    /// snapshots.
    #[error(
        "stream {stream:?}: its state has personal data in it, of which no snapshot is kept; it can only be closed for good"
    )]
    Personal {
        /// The stream.
        stream: StreamName,
    },
    /// The state could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store failed, or the name is invalid.
    #[error(transparent)]
    Store(#[from] StoreError),
}
