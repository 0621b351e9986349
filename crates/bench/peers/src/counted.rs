//! The count of the jobs that were done, and the times of the first and the last one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

static DONE: AtomicU64 = AtomicU64::new(0);
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
static LAST: AtomicU64 = AtomicU64::new(0);

/// What was done so far. Times are in microseconds since 1970.
#[derive(Debug, Serialize)]
pub(crate) struct Counted {
    done: u64,
    first: u64,
    last: u64,
}

/// Counts one job: all that a handler does.
pub(crate) fn count_one() {
    let now = now();
    FIRST.fetch_min(now, Ordering::Relaxed);
    LAST.fetch_max(now, Ordering::Relaxed);
    DONE.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn counted() -> Counted {
    Counted {
        done: DONE.load(Ordering::Relaxed),
        first: FIRST.load(Ordering::Relaxed),
        last: LAST.load(Ordering::Relaxed),
    }
}

/// Now, in microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
