//! The only place where a name of this pattern is spelled.

use tidelock_store::{ItemKey, ItemRef, QueueName, RecordKey, Result, StreamName};
use uuid::Uuid;

/// What the keys of all books begin with; and the queues of the rights to work on them.
pub(super) const RECORDS: &str = "~closing/";

/// Where it says how far a stream's books are closed.
pub(super) fn record(stream: &StreamName) -> Result<RecordKey> {
    RecordKey::new(format!("{RECORDS}{stream}"))
}

/// The stream whose books a record is.
pub(super) fn stream_of(record: &RecordKey) -> Option<StreamName> {
    StreamName::new(record.as_str().strip_prefix(RECORDS)?).ok()
}

/// Whether a queue is for the right to work on a stream's books. Its item is always due, for
/// whoever comes.
pub(crate) fn is_desk(queue: &QueueName) -> bool {
    queue.as_str().starts_with(RECORDS)
}

/// The right to work on a stream's books. It has a queue to itself, because a lease is on whatever
/// a queue has; the name is a digest, because a stream's can be longer than a queue's.
pub(super) fn item(stream: &StreamName) -> ItemRef {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, stream.as_str().as_bytes());
    let queue = QueueName::new(format!("{RECORDS}{digest}")).expect("a digest is short and plain");
    ItemRef { queue, key: ItemKey::new("books").expect("it is short and plain") }
}
