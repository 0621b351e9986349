//! Which workflows there are: those of this process, and the newest version of each that any
//! process has registered.
//!
//! A run follows one version of its workflow for good. Whoever starts it without saying which gets
//! the newest of its own process, so that what it starts can be driven there; a process that drives
//! nothing gets the newest that anybody has.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, RawJson, RecordWrite, Result, Slot, Store, StoreExt,
};

use super::workflow::Code;
use super::{Workflow, WorkflowName, WorkflowVersion, keys};

/// What is known of a workflow before any of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) version: WorkflowVersion,
    /// How long its runs are kept after they have ended; for ever, if this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retention: Option<Duration>,
}

impl Registered {
    /// What the record of a workflow says.
    pub(crate) fn of(slot: &Slot) -> Result<Option<Self>> {
        slot.live().map(|record| record.value.to()).transpose()
    }

    /// Whether this is to replace what is there: an older version never does.
    fn supersedes(&self, there: Option<Self>) -> bool {
        there.is_none_or(|there| self.version >= there.version && *self != there)
    }

    /// Tells the store, unless it knows of a newer version.
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
            // Whoever was quicker has said something too: look at it.
            if let CommitOutcome::Committed(_) = store.commit(commit).await? {
                return Ok(());
            }
        }
    }
}

/// The workflows of this process.
#[derive(Debug, Default)]
pub(crate) struct Workflows(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The newest version of each.
    newest: HashMap<WorkflowName, Registered>,
    /// The function of each version.
    code: HashMap<(WorkflowName, WorkflowVersion), Arc<dyn Code>>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.newest.fmt(f)
    }
}

impl Workflows {
    /// This process can drive this workflow.
    pub(crate) fn learn(&self, workflow: &Workflow) {
        let name = workflow.known_name();
        self.add(name, workflow.registered());
        self.lock().code.insert((name.clone(), workflow.version), workflow.code.clone());
    }

    fn add(&self, workflow: &WorkflowName, registered: Registered) {
        let mut known = self.lock();
        if registered.supersedes(known.newest.get(workflow).copied()) {
            known.newest.insert(workflow.clone(), registered);
        }
    }

    /// The newest that this process can drive.
    pub(crate) fn newest(&self, workflow: &WorkflowName) -> Option<Registered> {
        self.lock().newest.get(workflow).copied()
    }

    /// Whether the function of this version can read this input, as far as this process knows it;
    /// if not, why.
    pub(crate) fn check(
        &self,
        workflow: &WorkflowName,
        version: WorkflowVersion,
        input: &RawJson,
    ) -> Result<()> {
        let code = self.lock().code.get(&(workflow.clone(), version)).cloned();
        code.map_or(Ok(()), |code| code.check(input))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
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
        assert_eq!(slot.revision().unwrap().get(), 2, "what says nothing new writes nothing");
        let here = Workflows::default();
        here.add(&name, version(3));
        here.add(&name, version(2));
        assert_eq!(here.newest(&name), Some(version(3)));
    }
}
