//! What a work item is doing, in a word: of any queue, those of reactions and runs included.

use serde::{Deserialize, Serialize};
use tidelock_store::{Item, ItemFilter, Timestamp};

/// The state of an item at a moment of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// Not to be tried until somebody unblocks it.
    Blocked,
    /// Somebody works on it.
    Held,
    /// Somebody worked on it, and its time is over; nobody has taken it since.
    Expired,
    /// It has something to do and nobody has taken it yet.
    Due,
    /// It has something to do, and is not to be tried before later: a backoff, or a deferral.
    Waiting,
    /// It will have something to do.
    Scheduled,
    /// It has nothing to do.
    Idle,
}

impl ItemState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Blocked,
        Self::Held,
        Self::Expired,
        Self::Due,
        Self::Waiting,
        Self::Scheduled,
        Self::Idle,
    ];

    /// That of this item, at this moment.
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

    /// Its name, as it is serialized.
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

    /// The same filter, narrowed to what can be in this state, as far as the store can tell.
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
