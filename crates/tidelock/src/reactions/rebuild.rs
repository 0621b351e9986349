//! That a target was reset, and up to where its events were handled before: what was done elsewhere
//! is not done again.

use serde::{Deserialize, Serialize};
use tidelock_store::{ItemKey, Mark, RecordKey, Result, Revision, Slot};

use super::context::Replay;
use super::{ReactionName, keys};

/// What is in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rebuilding {
    /// Handled up to here before the reset.
    pub(crate) through: Mark,
    /// Whether effects elsewhere are to be repeated.
    pub(crate) effects: bool,
    /// Whether it may leave out events that are gone.
    #[serde(default)]
    pub(crate) partial: bool,
}

/// A rebuild that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rebuild {
    pub(crate) key: RecordKey,
    pub(crate) revision: Revision,
    pub(crate) told: Rebuilding,
}

impl Rebuild {
    pub(crate) fn key(reaction: &ReactionName, target: &ItemKey) -> Result<RecordKey> {
        keys::rebuild(reaction.as_str(), target)
    }

    /// What is under the key.
    pub(crate) fn read(slot: &Slot) -> Result<Option<Self>> {
        let Some(record) = slot.live() else { return Ok(None) };
        let told = record.value.to()?;
        Ok(Some(Self { key: record.key.clone(), revision: record.revision, told }))
    }

    /// How an event at this mark is to be handled.
    pub(crate) fn replay(&self, mark: Mark) -> Replay {
        let rebuild = mark <= self.told.through;
        Replay { rebuild, silent: rebuild && !self.told.effects }
    }

    /// Whether it is to handle again what follows this mark, and nothing may be missing there.
    pub(crate) fn needs_all_after(&self, mark: Mark) -> bool {
        !self.told.partial && mark < self.told.through
    }

    /// Whether it is over once this much is done.
    pub(crate) fn ends_at(&self, done: Mark) -> bool {
        done >= self.told.through
    }
}
