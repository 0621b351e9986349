//! Operations that are done once, however often they are asked for.
//!
//! What an operation did is written into a record, in its own commit. Whoever asks for it again
//! reads the record, or, coming at the same time, is refused by it and then reads it. The ids of
//! its events follow from the operation, so that even when the record has been forgotten the events
//! cannot be there twice.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    EventId, ExpectedRevision, RawJson, RecordKey, RecordWrite, Result, Store, StoreExt,
    StreamName, Version, When,
};
use uuid::Uuid;

use super::executed::{Executed, Provenance};
use super::keys;
use super::options::OperationId;

/// What an operation did to one stream.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OperationRecord {
    pub(crate) stream: StreamName,
    pub(crate) version: Option<Version>,
    pub(crate) events: Vec<EventId>,
}

/// The record of an operation; it belongs to the first of its streams.
pub(crate) fn key(operation: &OperationId, stream: &StreamName) -> Result<RecordKey> {
    keys::operation(stream, &operation.id)
}

/// The id of the nth event that an operation appends to a stream.
pub(crate) fn event_id(operation: &OperationId, stream: &StreamName, nth: usize) -> EventId {
    let name = format!("{stream}\0{}\0{nth}", operation.id);
    EventId::from_bytes(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).into_bytes())
}

/// Says what it did, in the commit that does it.
pub(crate) fn write(
    operation: &OperationId,
    key: &RecordKey,
    did: &[OperationRecord],
) -> Result<RecordWrite> {
    let write = RecordWrite::put(key, ExpectedRevision::Absent, RawJson::new(did)?);
    Ok(write.expiring(When::In(operation.remembered)))
}

/// What it did, if it was done.
pub(crate) async fn find(
    store: &(impl Store + ?Sized),
    key: &RecordKey,
) -> Result<Option<Vec<Executed>>> {
    let Some(record) = store.get_one(key).await?.into_live() else { return Ok(None) };
    let mut executed = Vec::new();
    for did in record.value.to::<Vec<OperationRecord>>()? {
        executed.push(replayed(store, did).await?);
    }
    Ok(Some(executed))
}

async fn replayed(store: &(impl Store + ?Sized), did: OperationRecord) -> Result<Executed> {
    let OperationRecord { stream, version, events } = did;
    let position = match version.filter(|_| !events.is_empty()) {
        Some(version) => store.event(&stream, version).await?.map(|event| event.position),
        None => None,
    };
    Ok(Executed { stream, version, position, events, attempts: 1, how: Provenance::Replayed })
}
