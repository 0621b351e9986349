//! State of a work item, in any queue, including those of reactions and runs.

use serde::{Deserialize, Serialize};
use tidelock_store::{Item, ItemFilter, Timestamp};

/// State of an item at a time of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// Not attempted until it is unblocked.
    Blocked,
    /// Leased by a worker.
    Held,
    /// Its lease has expired, and no worker has leased it since.
    Expired,
    /// Ready to be leased.
    Due,
    /// Has work, but is not attempted before a later time: a backoff or a deferral.
    Waiting,
    /// Has work at a later time.
    Scheduled,
    /// Has no work.
    Idle,
}

impl ItemState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Blocked,
        Self::Held,
        Self::Expired,
        Self::Due,
        Self::Waiting,
        Self::Scheduled,
        Self::Idle,
    ];

    /// Returns the state of an item at this time.
    pub fn of(item: &Item, now: Timestamp) -> Self {
        match (item.blocked, &item.holder, item.due) {
            (true, ..) => Self::Blocked,
            (false, Some(holder), _) if holder.deadline > now => Self::Held,
            (false, Some(_), _) => Self::Expired,
            (false, None, None) => Self::Idle,
            (false, None, Some(due)) if due > now => Self::Scheduled,
            (false, None, Some(_)) if item.hold.is_some_and(|hold| hold > now) => Self::Waiting,
            (false, None, Some(_)) => Self::Due,
        }
    }

    /// Returns the serialized name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Held => "held",
            Self::Expired => "expired",
            Self::Due => "due",
            Self::Waiting => "waiting",
            Self::Scheduled => "scheduled",
            Self::Idle => "idle",
        }
    }

    /// Narrows a filter to items that can be in this state, as far as the store can tell.
    pub fn narrow(self, filter: ItemFilter) -> ItemFilter {
        match self {
            Self::Blocked => filter.blocked(true),
            Self::Held | Self::Expired => filter.blocked(false).held(true),
            Self::Due | Self::Waiting | Self::Scheduled | Self::Idle => {
                filter.blocked(false).held(false)
            }
        }
    }
}
