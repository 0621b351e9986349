//! Record keys of this module, spelled only here.

use tidelock_store::{ItemRef, RecordKey};

/// Record of an item's data. The length prefix delimits the queue's name, whatever it contains.
pub(crate) fn data(item: &ItemRef) -> RecordKey {
    let (queue, key) = (item.queue.as_str(), item.key.as_str());
    let name = format!("~work/{}/{queue}/{key}", queue.len());
    RecordKey::new(name).expect("the names of queues and items leave room for this")
}

/// Record of the trace in which an item was enqueued.
pub(super) fn trace(item: &ItemRef) -> RecordKey {
    let (queue, key) = (item.queue.as_str(), item.key.as_str());
    let name = format!("~work-trace/{}/{queue}/{key}", queue.len());
    RecordKey::new(name).expect("the names of queues and items leave room for this")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_store::limits;

    #[test]
    fn no_two_items_share_their_data() {
        let of = |queue: &str, key: &str| data(&ItemRef::parse(queue, key).unwrap());
        assert_ne!(of("a/b", "c"), of("a", "b/c"));
        assert_ne!(of("a", "3/b"), of("a/3", "b"));
    }

    #[test]
    fn the_longest_names_fit() {
        let (queue, key) =
            ("q".repeat(limits::QUEUE_NAME_BYTES), "k".repeat(limits::ITEM_KEY_BYTES));
        assert!(data(&ItemRef::parse(&queue, &key).unwrap()).as_str().ends_with(&key));
    }
}
