//! Export of one run: its recorded history as a value that can be kept as a file.
//!
//! It is what a test needs to replay the run against changed code, and nothing that depends on the
//! store: no position, no lease.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidelock_store::{EventId, RawJson, Result, Store, StoreError, StoredEvent, Timestamp};

use crate::runs::history;
use crate::runs::summary::Summarized;
use crate::runs::{RunId, WorkflowName, WorkflowVersion, keys};

/// The format of exports that this version writes and reads.
const FORMAT: &str = "tidelock run history, version 1";

/// The recorded history of a run: JSON as its text.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidelock::prelude::*;
/// use tidelock::runs::RunExport;
///
/// let tidelock = Tidelock::open("memory:").await?;
/// let run = tidelock.start("checkout", "checkout-7", &3).version(1).await?;
/// let file = run.export().await?.to_string();
/// assert_eq!(file.parse::<RunExport>()?.entries().len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunExport {
    format: String,
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowName,
    pub(crate) version: WorkflowVersion,
    pub(crate) generation: u32,
    pub(crate) started_at: Timestamp,
    pub(crate) entries: Vec<ExportedEntry>,
}

/// One entry of an exported history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExportedEntry {
    /// Its number in the history of the run.
    pub number: u64,
    /// Its kind: `started`, `step`, `timer`, `received`, `completed`…
    pub kind: String,
    /// The id of its event.
    pub id: EventId,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The recorded data.
    pub data: RawJson,
    /// The metadata of its event.
    pub metadata: RawJson,
}

/// The name field of entries that belong to an operation.
#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}

impl RunExport {
    /// Returns the run's id.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the run's workflow.
    pub fn workflow(&self) -> &WorkflowName {
        &self.workflow
    }

    /// Returns the entries, in order.
    pub fn entries(&self) -> &[ExportedEntry] {
        &self.entries
    }

    /// The names of the entries of these kinds, in order.
    pub(crate) fn names(&self, kinds: impl Fn(&str) -> bool) -> Vec<String> {
        let named = self.entries.iter().filter(|entry| kinds(&entry.kind));
        named.filter_map(ExportedEntry::name).collect()
    }
}

impl ExportedEntry {
    /// Returns the name of the step, sleep, wait or child that it belongs to, if any.
    pub fn name(&self) -> Option<String> {
        self.data.to::<Named>().ok()?.name
    }

    fn of(event: &StoredEvent) -> Self {
        Self {
            number: event.version.get(),
            kind: keys::entry_kind(&event.event_type).to_owned(),
            id: event.id,
            recorded_at: event.recorded_at,
            data: event.payload.clone(),
            metadata: event.metadata.clone(),
        }
    }
}

/// The JSON of the export.
impl fmt::Display for RunExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for RunExport {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let unreadable = |error: String| StoreError::invalid(format!("an exported run: {error}"));
        let export: Self = serde_json::from_str(text).map_err(|e| unreadable(e.to_string()))?;
        match export.format == FORMAT {
            true => Ok(export),
            false => Err(unreadable(format!(
                "its format is {:?}; this version reads {FORMAT:?}",
                export.format
            ))),
        }
    }
}

/// Exports the run's generation.
pub(super) async fn of(store: &dyn Store, there: &Summarized) -> Result<RunExport> {
    let events = history::events(store, &there.run, there.summary.begins).await?;
    Ok(RunExport {
        format: FORMAT.to_owned(),
        run: there.run.clone(),
        workflow: there.summary.workflow.clone(),
        version: there.summary.version,
        generation: there.summary.generation,
        started_at: there.summary.started_at,
        entries: events.iter().map(ExportedEntry::of).collect(),
    })
}
