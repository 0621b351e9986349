//! How far an import has come: noted in the same commit as what it did, so that it goes on exactly
//! there.

use serde::{Deserialize, Serialize};
use tidelock::{
    Committed, ExpectedRevision, RawJson, RecordKey, RecordWrite, Revision, Store, StoreExt,
};
use uuid::Uuid;

use super::keys;
use crate::args::ReactionsThen;
use crate::failure::Failure;

/// What is noted.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Noted {
    /// Everything up to this line is there.
    line: u64,
    reactions: String,
    done: bool,
}

/// The note of one import.
#[derive(Debug)]
pub(super) struct Note {
    key: RecordKey,
    revision: Option<Revision>,
    noted: Noted,
}

impl Note {
    /// The note as it is in the store, or a new one.
    pub(super) async fn find(
        store: &dyn Store,
        export: Uuid,
        then: ReactionsThen,
    ) -> Result<Self, Failure> {
        let key = keys::note(export)?;
        let asked = name(then);
        let Some(record) = store.get_one(&key).await?.into_live() else {
            return Ok(Self {
                key,
                revision: None,
                noted: Noted { line: 0, reactions: asked, done: false },
            });
        };
        let noted: Noted = record.value.to()?;
        if noted.reactions != asked {
            return Err(Failure::refused(
                format!(
                    "this import was begun with --reactions {}, and cannot go on with {asked}",
                    noted.reactions
                ),
                format!("the same command with --reactions {}, or an empty store", noted.reactions),
            ));
        }
        Ok(Self { key, revision: Some(record.revision), noted })
    }

    /// Everything up to this line is there.
    pub(super) fn line(&self) -> u64 {
        self.noted.line
    }

    pub(super) fn is_done(&self) -> bool {
        self.noted.done
    }

    /// The write that notes this line, if nobody else has noted anything meanwhile.
    pub(super) fn at(&mut self, line: u64) -> Result<RecordWrite, Failure> {
        self.noted.line = line;
        let expected = self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision);
        Ok(RecordWrite::put(&self.key, expected, RawJson::new(&self.noted)?))
    }

    /// The write that notes that all is done.
    pub(super) fn done(&mut self, line: u64) -> Result<RecordWrite, Failure> {
        self.noted.done = true;
        self.at(line)
    }

    /// It was written, in this commit.
    pub(super) fn written(&mut self, committed: &Committed) {
        let written = committed.writes.iter().find(|written| written.key == self.key);
        self.revision = written.and_then(|written| written.revision);
    }
}

fn name(then: ReactionsThen) -> String {
    match then {
        ReactionsThen::Continue => "continue",
        ReactionsThen::Rebuild => "rebuild",
        ReactionsThen::None => "none",
    }
    .to_owned()
}
