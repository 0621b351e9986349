//! Why books are not closed.

use tidelock_store::{Conflict, StoreError, StreamName, Timestamp, Version};

use super::archive::ArchiveFailure;
use crate::events::LoadError;
use crate::reactions::Unfinished;

/// A closing that did not come to its end. Nothing is lost: no event goes before the archive has
/// it, and the same call goes on where this one stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// There is nothing to close.
    #[error("stream {stream:?}: it does not exist, so there is nothing to close")]
    NoStream {
        /// Which.
        stream: StreamName,
    },
    /// All events that could go are gone, or are among those to keep.
    #[error("stream {stream:?}: there is nothing to clear away at version {version}")]
    NothingToClear {
        /// Which.
        stream: StreamName,
        /// Its version.
        version: Version,
    },
    /// The stream is closed, so it has no window that could be moved.
    #[error(
        "stream {stream:?}: it is closed at version {version}, so there is no window to move; close() clears it away"
    )]
    Shut {
        /// Which.
        stream: StreamName,
        /// Its version.
        version: Version,
    },
    /// The store refused, each time, because of something that others did to the stream or to its
    /// snapshot.
    #[error(
        "stream {stream:?}: its books did not land, because others were in the way each time: {conflict}"
    )]
    Refused {
        /// Which.
        stream: StreamName,
        /// What was in the way.
        conflict: Conflict,
    },
    /// Somebody else works on the same books.
    #[error(
        "stream {stream:?}: somebody else is closing its books; if that process died, try again in a quarter of a minute"
    )]
    Busy {
        /// Which.
        stream: StreamName,
        /// Until when they may, unless they ask for longer.
        until: Option<Timestamp>,
    },
    /// An earlier closing was begun in another way and is not done.
    #[error(
        "stream {stream:?}: {begun} was begun and is not done; finish that first, by calling it again"
    )]
    OtherPlan {
        /// Which.
        stream: StreamName,
        /// What was begun.
        begun: String,
    },
    /// A reaction has something left to do with the events.
    #[error("stream {stream:?}: {unfinished}")]
    Unfinished {
        /// Which.
        stream: StreamName,
        /// What.
        unfinished: Unfinished,
    },
    /// The archive did not take the events.
    #[error("stream {stream:?}: the archive did not take versions {from} to {to}: {source}")]
    Archive {
        /// Which.
        stream: StreamName,
        /// From this version.
        from: Version,
        /// To this version.
        to: Version,
        /// What it said.
        source: ArchiveFailure,
    },
    /// The stream is to go on, but its aggregate keeps no snapshots that it could go on from.
    #[error(
        "stream {stream:?}: to go on without its events it needs a snapshot; let Aggregate::snapshots say when one is kept"
    )]
    NoSnapshot {
        /// Which.
        stream: StreamName,
    },
    /// The stream is to go on, but its state has personal data in it, which no snapshot may keep.
    #[error(
        "stream {stream:?}: its state has personal data in it, of which no snapshot is kept; it can only be closed for good"
    )]
    Personal {
        /// Which.
        stream: StreamName,
    },
    /// The state could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store failed, or the name is none.
    #[error(transparent)]
    Store(#[from] StoreError),
}
