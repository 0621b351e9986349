//! The summary of a run: a record beside its history, for reads that do not need the history.
//!
//! It changes when the run starts, ends, continues as new or is retried, and for a step only if
//! that sets attributes. The index entries for listings change in the same commits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, ExpectedRevision, ItemRef, RawJson, Record, RecordWrite, Result, Revision, Slot, Store,
    StoreExt, Timestamp, Version, Wake, When,
};

use super::names::{StepName, WorkflowName};
use super::{RunId, WorkflowVersion, keys};

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It has not ended: it runs, sleeps, waits, or is parked.
    Open,
    /// Its function returned a result.
    Completed,
    /// Its function returned an error, or its deadline passed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was terminated from outside.
    Terminated,
}

impl RunState {
    /// All states.
    pub const ALL: [Self; 5] =
        [Self::Open, Self::Completed, Self::Failed, Self::Cancelled, Self::Terminated];

    /// Returns the stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
        }
    }

    /// Whether the run has ended.
    pub fn is_ended(self) -> bool {
        self != Self::Open
    }
}

/// The run that started a child and waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its id.
    pub run: RunId,
    /// The child's name in the parent.
    pub name: StepName,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its version.
    pub version: WorkflowVersion,
}

impl Parent {
    /// The item to wake when the child has ended.
    pub(crate) fn item(&self) -> ItemRef {
        keys::item(&self.workflow, self.version, &self.run)
    }
}

/// The content of a run's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) workflow: WorkflowName,
    pub(crate) version: WorkflowVersion,
    pub(crate) state: RunState,
    pub(crate) started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<Timestamp>,
    /// The run's deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) attributes: BTreeMap<String, String>,
    /// How long it is kept after its end; `None` keeps it indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retention: Option<Duration>,
    /// The digest of the input, which distinguishes a repeated start from another run.
    pub(crate) input_digest: String,
    /// The generation: 1, plus 1 for each time it continued as new.
    pub(crate) generation: u32,
    /// The first version of this generation; `None` means the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begins: Option<Version>,
}

/// A summary with the revision for optimistic concurrency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summarized {
    pub(crate) run: RunId,
    pub(crate) summary: Summary,
    pub(crate) revision: Revision,
}

impl Summary {
    /// The work item of the run.
    pub(crate) fn item(&self, run: &RunId) -> ItemRef {
        keys::item(&self.workflow, self.version, run)
    }

    /// When the retention of an ended run is over; `None` if it is open or kept indefinitely.
    pub(crate) fn removed_at(&self) -> Option<Timestamp> {
        Some(self.ended_at?.plus(self.retention?))
    }

    /// The writes of a new run: its record and index entries.
    pub(crate) fn first_writes(&self, run: &RunId) -> Result<Vec<RecordWrite>> {
        let mut writes = vec![
            RecordWrite::put(&keys::summary(run), ExpectedRevision::Absent, RawJson::new(self)?),
            self.indexed(run)?,
        ];
        for (name, value) in &self.attributes {
            writes.push(index_entry(&keys::attribute(name, value, self.started_at, run)?)?);
        }
        Ok(writes)
    }

    fn indexed(&self, run: &RunId) -> Result<RecordWrite> {
        index_entry(&keys::index(self.state, &self.workflow, self.started_at, run))
    }

    fn unindexed(&self, run: &RunId) -> RecordWrite {
        let key = keys::index(self.state, &self.workflow, self.started_at, run);
        RecordWrite::delete(&key, ExpectedRevision::Any)
    }
}

/// An index entry has no content.
fn index_entry(key: &tidelock_store::RecordKey) -> Result<RecordWrite> {
    Ok(RecordWrite::put(key, ExpectedRevision::Any, RawJson::new(&())?))
}

impl Summarized {
    /// Reads the record; `None` if the run does not exist.
    pub(crate) async fn read(store: &dyn Store, run: &RunId) -> Result<Option<Self>> {
        Self::of(run, &store.get_one(&keys::summary(run)).await?)
    }

    /// Decodes the record; `None` if the run does not exist.
    pub(crate) fn of(run: &RunId, slot: &Slot) -> Result<Option<Self>> {
        slot.live().map(|record| Self::from_record(run, record)).transpose()
    }

    fn from_record(run: &RunId, record: &Record) -> Result<Self> {
        let summary =
            record.value.to().map_err(|e| e.about(format_args!("run {:?}", run.as_str())))?;
        Ok(Self { run: run.clone(), summary, revision: record.revision })
    }

    /// The writes that change the summary and its index entries, with the expected revision.
    pub(crate) fn update_writes(&self, next: &Summary) -> Result<Vec<RecordWrite>> {
        let expected = ExpectedRevision::Revision(self.revision);
        let mut writes =
            vec![RecordWrite::put(&keys::summary(&self.run), expected, RawJson::new(next)?)];
        if self.summary.state != next.state {
            writes.push(self.summary.unindexed(&self.run));
            writes.push(next.indexed(&self.run)?);
        }
        let (before, after) = (&self.summary.attributes, &next.attributes);
        for (name, value) in before.iter().filter(|(name, value)| after.get(*name) != Some(value)) {
            let key = keys::attribute(name, value, self.summary.started_at, &self.run)?;
            writes.push(RecordWrite::delete(&key, ExpectedRevision::Any));
        }
        for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(value)) {
            let key = keys::attribute(name, value, next.started_at, &self.run)?;
            writes.push(index_entry(&key)?);
        }
        Ok(writes)
    }

    /// Adds the end of the run to a commit: its parent and the retention item are woken.
    pub(crate) fn end(&self, commit: Commit, state: RunState, at: Timestamp) -> Result<Commit> {
        let ended = Summary { state, ended_at: Some(at), ..self.summary.clone() };
        let parent = ended.parent.as_ref().map(|parent| Wake::at(parent.item(), When::NOW));
        let removal = ended.removed_at().map(|at| Wake::at(keys::removal(&self.run), When::At(at)));
        let commit = self.update_writes(&ended)?.into_iter().fold(commit, Commit::write);
        Ok(parent.into_iter().chain(removal).fold(commit, Commit::wake))
    }

    /// The writes that delete the summary and its index entries.
    pub(crate) fn removal_writes(&self) -> Result<Vec<RecordWrite>> {
        let expected = ExpectedRevision::Revision(self.revision);
        let mut writes = vec![
            RecordWrite::delete(&keys::summary(&self.run), expected),
            self.summary.unindexed(&self.run),
        ];
        for (name, value) in &self.summary.attributes {
            let key = keys::attribute(name, value, self.summary.started_at, &self.run)?;
            writes.push(RecordWrite::delete(&key, ExpectedRevision::Any));
        }
        Ok(writes)
    }

    /// The work item of the run.
    pub(crate) fn item(&self) -> ItemRef {
        self.summary.item(&self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summarized(attributes: &[(&str, &str)]) -> Summarized {
        let attributes = attributes.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let summary = Summary {
            workflow: WorkflowName::new("checkout").unwrap(),
            version: WorkflowVersion::FIRST,
            state: RunState::Open,
            started_at: Timestamp::from_micros(7).unwrap(),
            ended_at: None,
            deadline: None,
            parent: None,
            attributes: attributes.collect(),
            retention: None,
            input_digest: "d".into(),
            generation: 1,
            begins: None,
        };
        Summarized { run: RunId::new("r").unwrap(), summary, revision: Revision::FIRST }
    }

    #[test]
    fn a_summary_survives_its_json() {
        let Summarized { summary, .. } = summarized(&[("shop", "7")]);
        assert_eq!(RawJson::new(&summary).unwrap().to::<Summary>().unwrap(), summary);
    }

    #[test]
    fn what_a_run_is_found_by_moves_with_it() {
        let before = summarized(&[("shop", "7"), ("kind", "gift")]);
        let mut next = before.summary.clone();
        next.state = RunState::Completed;
        next.attributes.insert("shop".into(), "8".into());
        let writes = before.update_writes(&next).unwrap();
        let keys: Vec<_> = writes.iter().map(|write| write.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "~run/r",
                "~run-index/open/checkout/9223372036854775800/r",
                "~run-index/completed/checkout/9223372036854775800/r",
                "~run-attribute/shop=7/9223372036854775800/r",
                "~run-attribute/shop=8/9223372036854775800/r",
            ]
        );
    }
}
