//! Rebuilds: a record that a target was reset, and up to where its events were handled before, so
//! that external effects are not repeated. A decision to skip an event is kept there, too.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    ExpectedRevision, ItemKey, Mark, RawJson, RecordKey, RecordWrite, Result, Revision, Slot,
};

use super::context::Replay;
use super::skip::StoredSkip;
use super::{ReactionName, keys};

/// The stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRebuild {
    /// Events up to this mark were handled before the reset.
    pub(crate) through: Mark,
    /// Whether external effects are repeated.
    pub(crate) effects: bool,
    /// Whether the rebuild may skip deleted events.
    #[serde(default)]
    pub(crate) partial: bool,
    /// The event that is left out, if an operator decided so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) skip: Option<StoredSkip>,
}

impl StoredRebuild {
    /// Nothing is handled again.
    pub(crate) fn none() -> Self {
        Self { through: Mark::ZERO, effects: false, partial: false, skip: None }
    }
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

    /// The decision to skip the event after this mark.
    pub(crate) fn skip(&self, at: Mark) -> Option<&StoredSkip> {
        self.stored.skip.as_ref().filter(|skip| skip.at == at)
    }

    /// The record once the target is done up to this mark: gone with the rebuild, and without the
    /// decision to skip once that was carried out.
    pub(crate) fn after(&self, done: Mark) -> Result<Option<RecordWrite>> {
        let expected = ExpectedRevision::Any;
        if self.ends_at(done) {
            return Ok(Some(RecordWrite::delete(&self.key, expected)));
        }
        let Some(_) = self.stored.skip.as_ref().filter(|skip| skip.at < done) else {
            return Ok(None);
        };
        let stored = StoredRebuild { skip: None, ..self.stored.clone() };
        Ok(Some(RecordWrite::put(&self.key, expected, RawJson::new(&stored)?)))
    }

    /// Whether the rebuild is complete at this mark.
    fn ends_at(&self, done: Mark) -> bool {
        done >= self.stored.through
    }
}
