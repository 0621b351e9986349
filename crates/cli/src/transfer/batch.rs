//! Lines that are imported in one commit.
//!
//! A commit has one append per stream, and positions follow the order of the appends. To keep the
//! order of the feed, a batch ends where a stream recurs after another one.

use std::collections::HashSet;

use tidelock::store::{
    Append, Commit, ExpectedRevision, Item, NewEvent, Record, RecordWrite, StoredEvent, StreamName,
    Version,
};
use tidelock::{ExpectedVersion, When};

/// The maximum bytes of JSON in a batch; one more event or record still fits into a commit.
const BYTES: usize = 8 << 20;
/// The maximum number of parts and events in a batch.
const MOST: usize = 500;

#[derive(Debug, Default)]
pub(super) struct Batch {
    commit: Commit,
    streams: HashSet<StreamName>,
    bytes: usize,
    count: usize,
    /// The number of the last line.
    line: u64,
}

impl Batch {
    /// Whether this event still fits.
    pub(super) fn takes(&self, event: &StoredEvent) -> bool {
        let goes_on =
            self.commit.appends.last().is_some_and(|append| append.stream == event.stream);
        self.has_room() && (goes_on || !self.streams.contains(&event.stream))
    }

    pub(super) fn has_room(&self) -> bool {
        self.count < MOST && self.bytes < BYTES
    }

    pub(super) fn event(&mut self, line: u64, event: StoredEvent) {
        self.count(line, event.payload.as_str().len() + event.metadata.as_str().len());
        let new = NewEvent {
            id: event.id,
            event_type: event.event_type,
            payload: event.payload,
            metadata: event.metadata,
        };
        match self.commit.appends.last_mut().filter(|append| append.stream == event.stream) {
            Some(append) => append.events.push(new),
            None => {
                self.streams.insert(event.stream.clone());
                self.commit.appends.push(Append::new(&event.stream, before(event.version), [new]));
            }
        }
    }

    pub(super) fn closed(&mut self, line: u64, stream: &StreamName) {
        self.count(line, 0);
        self.commit.appends.push(Append::closing(stream, ExpectedVersion::Exists));
    }

    pub(super) fn record(&mut self, line: u64, record: Record) {
        self.count(line, record.value.as_str().len());
        let write = RecordWrite::put(&record.key, ExpectedRevision::Absent, record.value);
        let expires = record.expires_at.map(When::At);
        self.commit.writes.push(expires.into_iter().fold(write, RecordWrite::expiring));
    }

    pub(super) fn item(&mut self, line: u64, item: Item) {
        self.count(line, item.error.as_deref().map_or(0, str::len));
        self.commit.restores.push(item);
    }

    /// The commit, and the number of the last line; `None` if the batch is empty.
    pub(super) fn take(&mut self) -> Option<(Commit, u64)> {
        let batch = std::mem::take(self);
        (batch.count > 0).then_some((batch.commit, batch.line))
    }

    fn count(&mut self, line: u64, bytes: usize) {
        self.line = line;
        self.count += 1;
        self.bytes += bytes;
    }
}

/// The expected version for the next event to get this version.
fn before(version: Version) -> ExpectedVersion {
    Version::new(version.get() - 1).map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact)
}
