//! Idempotent operations: a decision that takes effect once per operation id.
//!
//! The result of an operation is written to a record in the operation's own commit. A repeat reads
//! the record; a concurrent repeat conflicts with it and then reads it. The event ids are derived
//! from the operation id, so that the events cannot be appended twice even after the record has
//! expired.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Committed, EventId, ExpectedRevision, RawJson, RecordKey, RecordWrite, Result, Store, StoreExt,
    StreamName, Version, When,
};
use uuid::Uuid;

use super::executed::{Executed, Provenance};
use super::keys;
use super::options::OperationId;

/// Result of an operation on one stream.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OperationRecord {
    pub(crate) stream: StreamName,
    pub(crate) version: Option<Version>,
    pub(crate) events: Vec<EventId>,
}

impl OperationRecord {
    fn of(executed: &Executed) -> Self {
        let Executed { stream, version, events, .. } = executed;
        Self { stream: stream.clone(), version: *version, events: events.clone() }
    }
}

/// Key of an operation's record; it belongs to the first of its streams.
pub(crate) fn key(operation: &OperationId, stream: &StreamName) -> Result<RecordKey> {
    keys::operation(stream, &operation.id)
}

/// Derives the id of the nth event that an operation appends to a stream.
pub(crate) fn event_id(operation: &OperationId, stream: &StreamName, nth: usize) -> EventId {
    let name = format!("{stream}\0{}\0{nth}", operation.id);
    EventId::from_bytes(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).into_bytes())
}

/// Builds the write of an operation's record.
pub(crate) fn write(
    operation: &OperationId,
    key: &RecordKey,
    records: &[OperationRecord],
) -> Result<RecordWrite> {
    let write = RecordWrite::put(key, ExpectedRevision::Absent, RawJson::new(records)?);
    Ok(write.expiring(When::In(operation.remembered)))
}

/// Builds the write that corrects an operation's record, directly after its commit.
pub(crate) fn corrected(
    operation: &OperationId,
    key: &RecordKey,
    committed: &Committed,
    executed: &[Executed],
) -> Result<RecordWrite> {
    let records: Vec<_> = executed.iter().map(OperationRecord::of).collect();
    let written = committed.writes.iter().find(|written| written.key == *key);
    let revision = written.and_then(|written| written.revision);
    let expected = revision.map_or(ExpectedRevision::Any, ExpectedRevision::Revision);
    Ok(RecordWrite { expected, ..write(operation, key, &records)? })
}

/// Returns the recorded results, if the operation was executed.
pub(crate) async fn find(
    store: &(impl Store + ?Sized),
    key: &RecordKey,
) -> Result<Option<Vec<Executed>>> {
    let Some(stored) = store.get_one(key).await?.into_live() else { return Ok(None) };
    let mut executed = Vec::new();
    for record in stored.value.to::<Vec<OperationRecord>>()? {
        executed.push(replayed(store, record).await?);
    }
    Ok(Some(executed))
}

async fn replayed(store: &(impl Store + ?Sized), record: OperationRecord) -> Result<Executed> {
    let OperationRecord { stream, version, events } = record;
    let position = match version.filter(|_| !events.is_empty()) {
        Some(version) => store.event(&stream, version).await?.map(|event| event.position),
        None => None,
    };
    Ok(Executed { stream, version, position, events, attempts: 1, how: Provenance::Replayed })
}
