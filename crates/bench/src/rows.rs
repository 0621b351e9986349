//! The rows that both sides write and read: the same names, the same bytes.

/// The type of every event.
pub(crate) const EVENT_TYPE: &str = "Happened";
/// The queue of every item.
pub(crate) const QUEUE: &str = "work";
/// The holder of every lease.
pub(crate) const WORKER: &str = "worker-1";
/// The record that all callers write.
pub(crate) const HOT_KEY: &str = "hot";
/// The bound of a counter: never reached, but checked by every addition.
pub(crate) const BOUND: i64 = i64::MAX / 2;

/// JSON of exactly 200 bytes.
pub(crate) fn payload() -> String {
    format!("{{\"note\":\"{}\"}}", "x".repeat(189))
}

/// The stream of a caller.
pub(crate) fn stream_name(number: usize) -> String {
    format!("stream-{number:04}")
}

/// The key that a caller sets next.
pub(crate) fn record_key(caller: usize, next: u64) -> String {
    format!("key-{caller:03}-{next:09}")
}

/// The key of an item.
pub(crate) fn item_key(number: usize) -> String {
    format!("item-{number:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_200_bytes() {
        assert_eq!(payload().len(), 200);
    }
}
