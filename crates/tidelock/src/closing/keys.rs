//! Record keys and queue names of this module, spelled only here.

use tidelock_store::{ItemKey, ItemRef, QueueName, RecordKey, Result, StreamName};
use uuid::Uuid;

/// Key prefix of all closings, and of the queues of their leases.
pub(super) const RECORDS: &str = "~closing/";

/// Record of a stream's closing.
pub(super) fn record(stream: &StreamName) -> Result<RecordKey> {
    RecordKey::new(format!("{RECORDS}{stream}"))
}

/// Returns the stream of a closing's record.
pub(super) fn stream_of(record: &RecordKey) -> Option<StreamName> {
    StreamName::new(record.as_str().strip_prefix(RECORDS)?).ok()
}

/// Whether a queue holds the lease of a closing. Its item is always due.
pub(crate) fn is_closing_queue(queue: &QueueName) -> bool {
    queue.as_str().starts_with(RECORDS)
}

/// Lease item of a stream's closing. It has its own queue, because a lease is granted on any item
/// of a queue. The queue's name is a digest, because a stream's name can be longer than a queue's.
pub(super) fn item(stream: &StreamName) -> ItemRef {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, stream.as_str().as_bytes());
    let queue = QueueName::new(format!("{RECORDS}{digest}")).expect("a digest is short and plain");
    ItemRef { queue, key: ItemKey::new("books").expect("it is short and plain") }
}
