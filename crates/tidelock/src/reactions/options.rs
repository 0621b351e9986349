//! Options of a reaction.

use std::time::Duration;

use tidelock_store::{LaneName, Position, Priority, Timestamp};

use crate::retry::RetryLimits;
use crate::worker::TIMEOUT;

/// Where a new reaction starts. Decided once, when it is first registered; the store remembers it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// At the first stored event.
    #[default]
    Beginning,
    /// At the next new event.
    Now,
    /// At the first event after this position of the feed.
    After(Position),
    /// At the first event that was recorded at this time or later.
    Since(Timestamp),
}

/// What happens to an item whose retries are exhausted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnExhausted {
    /// It is blocked until an operator unblocks it.
    #[default]
    Block,
    /// It is retried indefinitely, with the longest backoff. Later events of the target wait; they
    /// are never skipped.
    KeepTrying,
}

/// The options of one reaction.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) start: StartFrom,
    pub(crate) retry: RetryLimits,
    pub(crate) on_exhausted: OnExhausted,
    pub(crate) lease: Duration,
    /// The timeout of one call of the handler.
    pub(crate) timeout: Duration,
    pub(crate) expiries: u32,
    pub(crate) lane: Option<LaneName>,
    pub(crate) priority: Priority,
    pub(crate) limit: Option<usize>,
    /// Events read per lease. The rest is due again at once, after items that waited longer.
    pub(crate) page: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start: StartFrom::default(),
            retry: RetryLimits::REACTION,
            on_exhausted: OnExhausted::default(),
            lease: Duration::from_secs(30),
            timeout: TIMEOUT,
            expiries: 3,
            lane: None,
            priority: Priority::NORMAL,
            limit: None,
            page: 100,
        }
    }
}
