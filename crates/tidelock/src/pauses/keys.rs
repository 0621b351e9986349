//! Keys of pauses: the only place that spells their record's key.

use tidelock_store::RecordKey;

/// The record that lists what is paused.
pub(super) fn paused() -> RecordKey {
    RecordKey::new("~paused").expect("it is short and plain")
}
