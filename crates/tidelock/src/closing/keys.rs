//! The only place where a name of this pattern is spelled.

use tidelock_store::{ItemKey, ItemRef, QueueName, RecordKey, Result, StreamName};
use uuid::Uuid;

/// Where it says how far a stream's books are closed.
pub(super) fn record(stream: &StreamName) -> Result<RecordKey> {
    RecordKey::new(format!("~closing/{stream}"))
}

/// The right to work on a stream's books. It has a queue to itself, because a lease is on whatever a queue has; the name is a
/// digest, because a stream's can be longer than a queue's.
pub(super) fn item(stream: &StreamName) -> ItemRef {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, stream.as_str().as_bytes());
    let queue = QueueName::new(format!("~closing/{digest}")).expect("a digest is short and plain");
    ItemRef { queue, key: ItemKey::new("books").expect("it is short and plain") }
}
