//! The progress of an import: recorded in the same commit as its data, so that a retry continues
//! exactly there.

use serde::{Deserialize, Serialize};
use tidelock::store::{
    Committed, ExpectedRevision, RawJson, RecordKey, RecordWrite, Revision, Store, StoreExt,
};
use uuid::Uuid;

use super::keys;
use crate::args::ImportReactions;
use crate::failure::{Failure, Result};

/// The recorded progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ProgressRecord {
    /// Everything up to this line is imported.
    line: u64,
    reactions: String,
    done: bool,
}

/// The progress record of one import.
#[derive(Debug)]
pub(super) struct ImportProgress {
    key: RecordKey,
    revision: Option<Revision>,
    noted: ProgressRecord,
}

impl ImportProgress {
    /// Reads the progress record, or creates a new one.
    pub(super) async fn find(
        store: &dyn Store,
        export: Uuid,
        then: ImportReactions,
    ) -> Result<Self> {
        let key = keys::note(export)?;
        let asked = name(then);
        let Some(record) = store.get_one(&key).await?.into_live() else {
            return Ok(Self {
                key,
                revision: None,
                noted: ProgressRecord { line: 0, reactions: asked, done: false },
            });
        };
        let noted: ProgressRecord = record.value.to()?;
        if noted.reactions != asked {
            return Err(Failure::refused(
                format!(
                    "this import was started with --reactions {}, and cannot continue with {asked}",
                    noted.reactions
                ),
                format!("the same command with --reactions {}, or an empty store", noted.reactions),
            ));
        }
        Ok(Self { key, revision: Some(record.revision), noted })
    }

    /// Everything up to this line is imported.
    pub(super) fn line(&self) -> u64 {
        self.noted.line
    }

    pub(super) fn is_done(&self) -> bool {
        self.noted.done
    }

    /// The write that records this line, if the record has not changed in the meantime.
    pub(super) fn at(&mut self, line: u64) -> Result<RecordWrite> {
        self.noted.line = line;
        let expected = self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision);
        Ok(RecordWrite::put(&self.key, expected, RawJson::new(&self.noted)?))
    }

    /// The write that records the end.
    pub(super) fn done(&mut self, line: u64) -> Result<RecordWrite> {
        self.noted.done = true;
        self.at(line)
    }

    /// The write was committed.
    pub(super) fn written(&mut self, committed: &Committed) {
        let written = committed.writes.iter().find(|written| written.key == self.key);
        self.revision = written.and_then(|written| written.revision);
    }
}

fn name(then: ImportReactions) -> String {
    match then {
        ImportReactions::Continue => "continue",
        ImportReactions::Rebuild => "rebuild",
        ImportReactions::None => "none",
    }
    .to_owned()
}
