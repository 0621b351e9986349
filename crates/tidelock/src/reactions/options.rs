//! What can be said about a reaction besides what it does.

use std::time::Duration;

use tidelock_store::{LaneName, Priority};

use super::Backoff;
use crate::worker::TIMEOUT;

/// Where a reaction that was never registered before begins. Decided once: the store remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// With the first event there is.
    #[default]
    Beginning,
    /// With the next event that comes.
    Now,
}

/// What becomes of an item whose retries are used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnExhausted {
    /// It is blocked until somebody unblocks it.
    #[default]
    Block,
    /// It is tried on and on, with the longest wait. Events behind it wait for as long; they are
    /// never skipped.
    KeepTrying,
}

/// The options of one reaction.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) start: StartFrom,
    pub(crate) retries: u32,
    pub(crate) exhausted: OnExhausted,
    pub(crate) backoff: Backoff,
    pub(crate) lease: Duration,
    /// For one call of the handler.
    pub(crate) timeout: Duration,
    pub(crate) expiries: u32,
    pub(crate) lane: Option<LaneName>,
    pub(crate) priority: Priority,
    pub(crate) limit: Option<usize>,
    /// Events read for one lease: what is left is due again at once, behind what waited longer.
    pub(crate) page: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start: StartFrom::default(),
            retries: 5,
            exhausted: OnExhausted::default(),
            backoff: Backoff::default(),
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
