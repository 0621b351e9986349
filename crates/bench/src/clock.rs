//! The machine's clock, which all processes of a run share.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
