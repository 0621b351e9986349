//! Rebuilds: a record that a target was reset, and up to where its events were handled before, so
//! that external effects are not repeated.

use serde::{Deserialize, Serialize};
use tidelock_store::{ItemKey, Mark, RecordKey, Result, Revision, Slot};

use super::context::Replay;
use super::{ReactionName, keys};

/// The stored form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRebuild {
    /// Events up to this mark were handled before the reset.
    pub(crate) through: Mark,
    /// Whether external effects are repeated.
    pub(crate) effects: bool,
    /// Whether the rebuild may skip deleted events.
    #[serde(default)]
    pub(crate) partial: bool,
}

/// A rebuild in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rebuild {
    pub(crate) key: RecordKey,
    pub(crate) revision: Revision,
    pub(crate) stored: StoredRebuild,
}

impl Rebuild {
    pub(crate) fn key(reaction: &ReactionName, target: &ItemKey) -> Result<RecordKey> {
        keys::rebuild(reaction.as_str(), target)
    }

    /// Decodes the record.
    pub(crate) fn read(slot: &Slot) -> Result<Option<Self>> {
        let Some(record) = slot.live() else { return Ok(None) };
        let stored = record.value.to()?;
        Ok(Some(Self { key: record.key.clone(), revision: record.revision, stored }))
    }

    /// How an event at this mark is handled.
    pub(crate) fn replay(&self, mark: Mark) -> Replay {
        let rebuild = mark <= self.stored.through;
        Replay { rebuild, silent: rebuild && !self.stored.effects }
    }

    /// Whether the events after this mark are handled again, and none of them may be missing.
    pub(crate) fn needs_all_after(&self, mark: Mark) -> bool {
        !self.stored.partial && mark < self.stored.through
    }

    /// Whether the rebuild is complete at this mark.
    pub(crate) fn ends_at(&self, done: Mark) -> bool {
        done >= self.stored.through
    }
}
