//! What a work item is doing, in a word.

use serde::Serialize;
use tidelock::{Item, Timestamp};

/// The state of an item at a moment of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
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

impl State {
    pub(crate) const ALL: [Self; 7] =
        [Self::Blocked, Self::Held, Self::Expired, Self::Due, Self::Waiting, Self::Scheduled, Self::Idle];

    pub(crate) fn of(item: &Item, now: Timestamp) -> Self {
        let (holder, due) = (item.holder.as_ref(), item.due);
        match (item.blocked, holder, due) {
            (true, ..) => Self::Blocked,
            (false, Some(holder), _) if holder.deadline > now => Self::Held,
            (false, Some(_), _) => Self::Expired,
            (false, None, None) => Self::Idle,
            (false, None, Some(due)) if due > now => Self::Scheduled,
            (false, None, Some(_)) if item.hold.is_some_and(|hold| hold > now) => Self::Waiting,
            (false, None, Some(_)) => Self::Due,
        }
    }

    pub(crate) fn name(self) -> &'static str {
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
}
