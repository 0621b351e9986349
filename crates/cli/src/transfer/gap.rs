//! Trimmed streams: the next event must get the version that it had.
//!
//! The store assigns versions itself, so the gap is filled with events, which are trimmed again.
//! Each step starts from the current state, and so can be repeated after an interruption.

use tidelock::ExpectedVersion;
use tidelock::store::{
    AfterTrim, Append, Commit, EventType, NewEvent, RawJson, Store, StoreExt, StreamName, Version,
    limits,
};

use super::import::in_the_way;
use crate::failure::Result;

/// The type of the filling events. They are never read: a store is not in use during an import.
const FILLER: &str = "trimmed";

/// Brings the stream to this version, with no events in it.
pub(super) async fn fill(store: &dyn Store, stream: &StreamName, through: Version) -> Result<()> {
    loop {
        let (version, count) = head(store, stream).await?;
        let missing = through.get().saturating_sub(version.map_or(0, Version::get));
        let commit = match version {
            // This import was here before, up to here or further.
            Some(version) if version > through || count == 0 && missing == 0 => return Ok(()),
            Some(version) if missing == 0 => clear(stream, version),
            _ => append(stream, version, missing)?,
        };
        commit_all(store, commit).await?;
    }
}

async fn head(store: &dyn Store, stream: &StreamName) -> Result<(Option<Version>, u64)> {
    let head = store.head(stream).await?;
    Ok((head.state.version(), head.count))
}

fn append(stream: &StreamName, version: Option<Version>, missing: u64) -> Result<Commit> {
    let expected = version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
    let count = usize::try_from(missing).unwrap_or(usize::MAX).min(limits::EVENTS_PER_COMMIT);
    let (filler, nothing) = (EventType::new(FILLER)?, RawJson::parse("null")?);
    let events = (0..count).map(|_| NewEvent::new(filler.clone(), nothing.clone()));
    Ok(Commit::new().append(stream, expected, events))
}

fn clear(stream: &StreamName, version: Version) -> Commit {
    let close = Append::closing(stream, ExpectedVersion::Exact(version));
    Commit::new().with_append(close).trim(stream, version, AfterTrim::Reopen)
}

async fn commit_all(store: &dyn Store, commit: Commit) -> Result<()> {
    store.commit(commit).await?.committed().map(drop).map_err(|conflict| in_the_way(&conflict))
}
