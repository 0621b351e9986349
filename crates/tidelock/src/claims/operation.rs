//! Something that is asked for once: whoever asks again under its id gets what the first one got.
//!
//! The record of a claim has the id of the operation that claimed it, so that whoever asks again
//! finds it to be their own. Where the same request comes to another record the next day, as quotas
//! and singletons do with their periods, a note says what came of it: it is written in the commit
//! that takes, and refuses every other one.

use std::time::Duration;

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, RawJson, Record, RecordKey, RecordWrite, Result,
    When,
};

use super::acquire::{Acquire, ConflictVerdict, found};
use super::{ClaimKey, keys};
use crate::bounds;
use crate::events::submit;

/// Something that is asked for once, and for how long that is remembered.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) remembered: Duration,
}

impl Operation {
    /// Refuses one without an id, and one that no store remembers for so long.
    pub(super) fn check(&self) -> Result<()> {
        bounds::names(&self.id)?;
        let what = format_args!("operation {:?}: a memory", self.id);
        bounds::keeps(what, self.remembered)
    }

    /// Where it says what came of it, as far as this right is concerned.
    pub(super) fn note(&self, key: &ClaimKey) -> Result<Note> {
        self.check()?;
        Ok(Note { record: keys::operation(key, &self.id)?, remembered: self.remembered })
    }
}

/// Under an id by which it can be sent again: by the sender, and, under an operation, by whoever
/// asks again.
pub(super) fn repeatable(operation: Option<&Operation>, commit: Commit) -> Commit {
    match operation {
        Some(operation) => submit::once(commit, &operation.id),
        None => submit::repeatable(commit),
    }
}

/// Where it says what came of an operation.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) record: RecordKey,
    remembered: Duration,
}

impl Note {
    /// Says so, in the commit that does it.
    pub(super) fn write(&self, came: RawJson) -> RecordWrite {
        RecordWrite::put(&self.record, ExpectedRevision::Absent, came)
            .expiring(When::In(self.remembered))
    }

    /// What came of it before, if that is why this was refused.
    pub(super) fn met<'a>(&self, conflict: &'a Conflict) -> Option<&'a Record> {
        found(conflict, &self.record)?.live()
    }
}

/// The condition that an operation was not done yet.
#[derive(Debug)]
pub(super) struct NotYet {
    key: ClaimKey,
    note: Note,
    /// It was.
    pub(super) was_done: bool,
}

impl NotYet {
    pub(super) fn new(operation: &Operation, key: &ClaimKey) -> Result<Self> {
        Ok(Self { key: key.clone(), note: operation.note(key)?, was_done: false })
    }
}

impl Acquire for NotYet {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        Ok(commit.write(self.note.write(RawJson::new(&())?)))
    }

    fn is_witness(&self) -> bool {
        true
    }

    fn won(&mut self, _: &Committed) -> Result<()> {
        Ok(())
    }

    fn learn(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        self.was_done = self.note.met(conflict).is_some();
        Ok(if self.was_done { ConflictVerdict::Landed(None) } else { ConflictVerdict::Nothing })
    }
}
