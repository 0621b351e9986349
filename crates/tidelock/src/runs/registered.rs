//! Workflow registry: the workflows of this process, and the newest version of each that any
//! process has registered.
//!
//! A run follows one version of its workflow. Without an explicit version, a run gets the newest
//! one of the starting process, so that it can be driven there. A process without the workflow uses
//! the newest one in the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, RawJson, RecordWrite, Result, Slot, Store, StoreExt,
};

use super::definition::Code;
use super::{Definition, WorkflowName, WorkflowVersion, keys};

/// A registered workflow version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) version: WorkflowVersion,
    /// How long its runs are kept after their end; `None` keeps them indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retention: Option<Duration>,
}

impl Registered {
    /// Decodes the record of a workflow.
    pub(crate) fn of(slot: &Slot) -> Result<Option<Self>> {
        slot.live().map(|record| record.value.to()).transpose()
    }

    /// Whether this replaces the stored version: an older version never does.
    fn supersedes(&self, there: Option<Self>) -> bool {
        there.is_none_or(|there| self.version >= there.version && *self != there)
    }

    /// Stores the version, unless a newer one is stored.
    pub(crate) async fn announce(&self, store: &dyn Store, workflow: &WorkflowName) -> Result<()> {
        let key = keys::workflow(workflow);
        loop {
            let slot = store.get_one(&key).await?;
            if !self.supersedes(Self::of(&slot)?) {
                return Ok(());
            }
            let expected = slot
                .live()
                .map_or(ExpectedRevision::Absent, |r| ExpectedRevision::Revision(r.revision));
            let commit = Commit::new().write(RecordWrite::put(&key, expected, RawJson::new(self)?));
            // After a conflict, read the other process's version.
            if let CommitOutcome::Committed(_) = store.commit(commit).await? {
                return Ok(());
            }
        }
    }
}

/// The workflows of this process.
#[derive(Debug, Default)]
pub(crate) struct Workflows(Mutex<Registry>);

#[derive(Default)]
struct Registry {
    /// The newest version of each.
    newest: HashMap<WorkflowName, Registered>,
    /// The function of each version.
    code: HashMap<(WorkflowName, WorkflowVersion), Arc<dyn Code>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.newest.fmt(f)
    }
}

impl Workflows {
    /// Registers a workflow of this process.
    pub(crate) fn learn(&self, workflow: &Definition) {
        let name = workflow.known_name();
        self.add(name, workflow.registered());
        let version = workflow.settings.version;
        self.lock().code.insert((name.clone(), version), workflow.code.clone());
    }

    fn add(&self, workflow: &WorkflowName, registered: Registered) {
        let mut known = self.lock();
        if registered.supersedes(known.newest.get(workflow).copied()) {
            known.newest.insert(workflow.clone(), registered);
        }
    }

    /// The newest version in this process.
    pub(crate) fn newest(&self, workflow: &WorkflowName) -> Option<Registered> {
        self.lock().newest.get(workflow).copied()
    }

    /// Checks whether the function of this version can decode the input, if this process has it.
    pub(crate) fn check(
        &self,
        workflow: &WorkflowName,
        version: WorkflowVersion,
        input: &RawJson,
    ) -> Result<()> {
        let code = self.lock().code.get(&(workflow.clone(), version)).cloned();
        code.map_or(Ok(()), |code| code.check(input))
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_store::MemoryStore;

    fn version(version: u32) -> Registered {
        Registered { version: WorkflowVersion(version), retention: None }
    }

    #[tokio::test]
    async fn the_newest_version_stays_and_its_options_are_the_latest() {
        let (store, name) = (MemoryStore::new(), WorkflowName::new("checkout").unwrap());
        let kept = Registered { retention: Some(Duration::from_secs(60)), ..version(2) };
        for registered in [version(2), version(1), kept] {
            registered.announce(&store, &name).await.unwrap();
        }
        let slot = store.get_one(&keys::workflow(&name)).await.unwrap();
        assert_eq!(Registered::of(&slot).unwrap(), Some(kept));
        assert_eq!(slot.revision().unwrap().get(), 2, "an unchanged version is not written");
        let here = Workflows::default();
        here.add(&name, version(3));
        here.add(&name, version(2));
        assert_eq!(here.newest(&name), Some(version(3)));
    }
}
