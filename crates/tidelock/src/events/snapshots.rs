//! Snapshots: states stored beside their streams, so that loading does not start at the first
//! event.
//!
//! A snapshot is a record. It is written after the commit that made it due. A failed write does no
//! harm, because the stream is complete without it. An older snapshot never replaces a newer one. A
//! snapshot is ignored if it was written for another schema of the state, or if the remaining
//! events do not continue it.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidelock_store::{
    ExpectedRevision, Position, RawJson, RecordWrite, Result, Slot, Store, StoreError, StoreExt,
    StreamName, Timestamp, Version,
};

use super::folded::Folded;
use super::keys;

/// Snapshot policy of an aggregate, and the schema of its state.
pub struct Snapshots<A> {
    when: When<A>,
    schema: u32,
    /// `None` if snapshots are neither written nor read.
    codec: Option<Codec<A>>,
}

enum When<A> {
    Every(u64),
    After(fn(&A, Version) -> bool),
}

/// JSON codec of a state, erased to function pointers where the state's type is known.
struct Codec<A> {
    encode: fn(&A) -> Result<RawJson>,
    decode: fn(&RawJson) -> Result<A>,
}

#[derive(Serialize, Deserialize)]
struct Snapshot {
    schema: u32,
    version: Version,
    position: Position,
    recorded_at: Timestamp,
    state: RawJson,
}

impl<A> Snapshots<A> {
    /// Disables snapshots.
    pub fn never() -> Self {
        Self { when: When::Every(u64::MAX), schema: 1, codec: None }
    }

    /// Sets the schema version of the state.
    ///
    /// Increment it when the state's fields change; snapshots of other schemas are ignored.
    #[must_use]
    pub fn schema(mut self, schema: u32) -> Self {
        self.schema = schema;
        self
    }
}

impl<A: Serialize + DeserializeOwned> Snapshots<A> {
    /// Writes a snapshot whenever the commit of a decision crosses a multiple of this many events.
    pub fn every(events: u64) -> Self {
        Self::by(When::Every(events.max(1)))
    }

    /// Writes a snapshot after every commit of a decision whose state satisfies the predicate.
    pub fn when(is_due: fn(&A, Version) -> bool) -> Self {
        Self::by(When::After(is_due))
    }

    fn by(when: When<A>) -> Self {
        let codec = Codec { encode: |state| RawJson::new(state), decode: RawJson::to };
        Self { when, schema: 1, codec: Some(codec) }
    }
}

impl<A> Snapshots<A> {
    /// Whether a commit that moved a stream between these versions can make a snapshot due,
    /// whatever the state.
    pub(crate) fn can_be_due(&self, before: Option<Version>, after: Version) -> bool {
        self.codec.is_some()
            && match self.when {
                When::Every(n) => before.map_or(0, Version::get) / n != after.get() / n,
                When::After(_) => true,
            }
    }

    /// Whether a commit that moved a stream from `before` to `after` makes a snapshot due.
    pub(crate) fn are_due(&self, before: Option<Version>, after: &Folded<A>) -> bool {
        let Some(version) = after.version.filter(|_| !after.personal) else { return false };
        self.can_be_due(before, version)
            && match self.when {
                When::Every(_) => true,
                When::After(is_due) => is_due(&after.state, version),
            }
    }

    /// Returns the stored snapshot, if this program can read it.
    pub(crate) async fn find(
        &self,
        store: &(impl Store + ?Sized),
        stream: &StreamName,
    ) -> Result<Option<Folded<A>>> {
        let Some(codec) = &self.codec else { return Ok(None) };
        let slot = store.get_one(&keys::snapshot(stream)?).await?;
        let snapshot = stored(&slot).filter(|snapshot| snapshot.schema == self.schema);
        // An unreadable snapshot is treated as absent.
        Ok(snapshot.and_then(|snapshot| {
            let last = Some((snapshot.position, snapshot.recorded_at));
            let state = (codec.decode)(&snapshot.state).ok()?.into();
            Some(Folded { state, version: Some(snapshot.version), last, personal: false })
        }))
    }

    /// Whether snapshots are enabled.
    pub(crate) fn are_enabled(&self) -> bool {
        self.codec.is_some()
    }

    /// Builds the write of a snapshot, for use in a larger commit. Returns `None` if a stored
    /// snapshot already reaches the version `least`.
    pub(crate) async fn write(
        &self,
        store: &(impl Store + ?Sized),
        stream: &StreamName,
        folded: &Folded<A>,
        least: Version,
    ) -> Result<Option<RecordWrite>> {
        let key = keys::snapshot(stream)?;
        let slot = store.get_one(&key).await?;
        match stored(&slot) {
            Some(kept) if kept.schema > self.schema => {
                return Err(StoreError::invalid(format!(
                    "stream {stream:?}: its snapshot was written by a newer program (shape {}, this one knows {})",
                    kept.schema, self.schema
                )));
            }
            Some(kept) if kept.schema == self.schema && kept.version >= least => return Ok(None),
            _ => {}
        }
        let Some(snapshot) = self.snapshot(folded)? else { return Ok(None) };
        Ok(Some(RecordWrite::put(&key, replacing(&slot), RawJson::new(&snapshot)?)))
    }

    /// Writes a snapshot unless a newer one exists. Returns whether it was written.
    pub(crate) async fn save(
        &self,
        store: &(impl Store + ?Sized),
        stream: &StreamName,
        folded: &Folded<A>,
    ) -> Result<bool> {
        let Some(snapshot) = self.snapshot(folded)? else { return Ok(false) };
        let key = keys::snapshot(stream)?;
        let slot = store.get_one(&key).await?;
        let newest = stored(&slot).map(|snapshot| (snapshot.schema, snapshot.version));
        if newest.is_some_and(|newest| newest >= (snapshot.schema, snapshot.version)) {
            return Ok(false);
        }
        // On a conflict a concurrent writer has stored one.
        Ok(store.put(&key, replacing(&slot), RawJson::new(&snapshot)?).await?.committed().is_ok())
    }

    fn snapshot(&self, folded: &Folded<A>) -> Result<Option<Snapshot>> {
        let (Some(codec), Some(version), Some((position, recorded_at))) =
            (&self.codec, folded.version, folded.last)
        else {
            return Ok(None);
        };
        let state = (codec.encode)(&folded.state)?;
        Ok(Some(Snapshot { schema: self.schema, version, position, recorded_at, state }))
    }
}

fn replacing(slot: &Slot) -> ExpectedRevision {
    slot.live()
        .map_or(ExpectedRevision::Absent, |record| ExpectedRevision::Revision(record.revision))
}

fn stored(slot: &Slot) -> Option<Snapshot> {
    slot.live().and_then(|record| record.value.to().ok())
}

impl<A> fmt::Debug for Snapshots<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut snapshots = f.debug_struct("Snapshots");
        match self.when {
            _ if self.codec.is_none() => snapshots.field("every", &"never"),
            When::Every(n) => snapshots.field("every", &n),
            When::After(_) => snapshots.field("when", &"as the aggregate says"),
        };
        snapshots.field("schema", &self.schema).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(snapshots: &Snapshots<i64>, before: u64, after: u64) -> bool {
        let version = |n| Version::new(n).ok();
        let state = i64::try_from(after).unwrap().into();
        let folded = Folded { state, version: version(after), last: None, personal: false };
        snapshots.are_due(version(before), &folded)
    }

    #[test]
    fn a_commit_that_crosses_a_multiple_makes_a_snapshot_due() {
        let every = Snapshots::every(10);
        assert!(due(&every, 9, 10) && due(&every, 7, 13) && due(&every, 0, 35));
        assert!(!due(&every, 10, 19) && !due(&every, 0, 9) && !due(&every, 20, 20));
        assert!(!due(&Snapshots::never(), 0, 100));
        let full = Snapshots::when(|state, _| *state > 3);
        assert!(due(&full, 0, 4) && !due(&full, 0, 3));
    }
}
