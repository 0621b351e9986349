//! The reactions that the workers run, and the events that they record.
//!
//! One follows each stream of work separately. The other gathers events of all streams at a few
//! targets, in batches.

use serde::{Deserialize, Serialize};
use tidelock::store::{EventId, Fence, StoredEvent};

/// Number of gathering targets.
const GATHERINGS: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reaction {
    Own,
    Gathered,
}

/// The event that a handler stages: it handled this event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handled {
    pub(crate) event: EventId,
    /// Under the lease with this fence.
    pub(crate) fence: Fence,
}

impl Reaction {
    pub(crate) const ALL: [Self; 2] = [Self::Own, Self::Gathered];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Gathered => "gathered",
        }
    }

    /// The target of an event.
    pub(crate) fn target(self, event: &StoredEvent) -> String {
        match self {
            Self::Own => event.stream.as_str().to_owned(),
            Self::Gathered => format!("gathering-{}", event.version.get() % GATHERINGS),
        }
    }
}
