//! Generations: which rows of a projection are read, which are built, and which are deleted.
//!
//! A rebuild writes its rows beside those that are read, under the next number. When they are
//! complete, one write of this record makes them the ones that are read. A number is never used
//! again, so a rebuild that is given up leaves nothing that a later one could mistake for its own.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    ExpectedRevision, RawJson, RecordWrite, Result, Revision, Slot, Store, StoreExt, Timestamp,
};

use crate::reactions::{ReactionName, keys};

/// The content of the record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generations {
    /// The one whose rows are read.
    pub(crate) live: u32,
    /// The last one that was begun.
    newest: u32,
    /// The rebuild, in progress or failed.
    pub(crate) building: Option<Building>,
    /// Those whose rows are to be deleted.
    pub(crate) obsolete: Vec<Obsolete>,
    /// The record's revision.
    #[serde(skip)]
    revision: Option<Revision>,
}

/// A rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Building {
    pub(crate) generation: u32,
    pub(crate) since: Timestamp,
    /// Whether deleted events may be missing.
    pub(crate) partial: bool,
    /// The targets that there were when it began.
    pub(crate) targets: u64,
    /// The targets whose rows are known to be rebuilt, in the order of their names.
    pub(crate) rebuilt: u64,
    /// The last of them.
    pub(crate) through: Option<String>,
    /// Why it cannot be completed.
    pub(crate) error: Option<String>,
}

/// A generation that is read no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Obsolete {
    pub(crate) generation: u32,
    /// The one that was built in its place, whose progress is deleted, too.
    pub(crate) built: Option<u32>,
    /// A lease from before this moment may still write to it.
    pub(crate) since: Timestamp,
}

impl Generations {
    /// Decodes the record; the first generation, if there is none.
    pub(crate) fn read(slot: &Slot) -> Result<Self> {
        let Some(record) = slot.live() else { return Ok(Self::default()) };
        Ok(Self { revision: Some(record.revision), ..record.value.to()? })
    }

    /// Reads it; `None` if no process has registered the projection.
    pub(crate) async fn find(store: &dyn Store, projection: &ReactionName) -> Result<Option<Self>> {
        let slot = store.get_one(&keys::generations(projection)).await?;
        slot.live().map(|_| Self::read(&slot)).transpose()
    }

    /// The write of this state in the place of the one that was read.
    pub(crate) fn write(&self, projection: &ReactionName) -> Result<RecordWrite> {
        let expected = self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision);
        Ok(RecordWrite::put(&keys::generations(projection), expected, RawJson::new(self)?))
    }

    /// The rebuild in progress.
    pub(crate) fn in_progress(&self) -> Option<&Building> {
        self.building.as_ref().filter(|building| building.error.is_none())
    }

    /// A new rebuild begins. A failed one is given up.
    pub(crate) fn begin(mut self, now: Timestamp, targets: u64, partial: bool) -> Self {
        self = self.give_up(now);
        self.newest += 1;
        self.building = Some(Building {
            generation: self.newest,
            since: now,
            partial,
            targets,
            rebuilt: 0,
            through: None,
            error: None,
        });
        self
    }

    /// What was built is deleted.
    pub(crate) fn give_up(mut self, now: Timestamp) -> Self {
        let given_up = self.building.take();
        self.obsolete.extend(given_up.map(|it| Obsolete {
            generation: it.generation,
            built: None,
            since: now,
        }));
        self
    }

    /// The rows that were built are read from now on, and the earlier ones deleted.
    pub(super) fn swap(mut self, now: Timestamp) -> Self {
        if let Some(built) = self.building.take() {
            let (generation, built_now) = (self.live, Some(built.generation));
            self.obsolete.push(Obsolete { generation, built: built_now, since: now });
            self.live = built.generation;
        }
        self
    }

    /// More targets are rebuilt.
    pub(super) fn advanced(mut self, targets: u64, through: String) -> Self {
        if let Some(building) = &mut self.building {
            building.rebuilt += targets;
            building.targets = building.targets.max(building.rebuilt);
            building.through = Some(through);
        }
        self
    }

    /// The rebuild cannot be completed.
    pub(super) fn failed(mut self, error: String) -> Self {
        if let Some(building) = &mut self.building {
            building.error = Some(error);
        }
        self
    }

    /// The rows of this generation are deleted.
    pub(super) fn cleared(mut self, generation: u32) -> Self {
        self.obsolete.retain(|obsolete| obsolete.generation != generation);
        self
    }
}
