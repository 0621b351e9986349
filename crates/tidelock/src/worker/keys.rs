//! Keys of global limits: the only place that spells their queues, item keys and records.

use tidelock_store::{ItemKey, ItemRef, QueueName, RecordKey, Result};

const PERMITS: &str = "~permits/";
const PACE: &str = "~pace/";

/// The queue of the permits of a limit of this name.
pub(super) fn permits(limit: &str) -> Result<QueueName> {
    QueueName::new(format!("{PERMITS}{limit}"))
}

/// The record of the rate of this name.
pub(super) fn pace(rate: &str) -> Result<RecordKey> {
    RecordKey::new(format!("{PACE}{rate}"))
}

/// The permit of this number, beginning with 1.
pub(super) fn permit(queue: &QueueName, nth: u32) -> ItemRef {
    let key = ItemKey::new(format!("{nth:04}")).expect("a number is a key");
    ItemRef { queue: queue.clone(), key }
}

/// The number of a permit.
pub(super) fn number_of(permit: &ItemKey) -> Option<u32> {
    permit.as_str().parse().ok()
}

/// Returns the name of the limit whose permits are in a queue, if it is one of these queues.
pub(crate) fn limited_by(queue: &QueueName) -> Option<&str> {
    queue.as_str().strip_prefix(PERMITS)
}
