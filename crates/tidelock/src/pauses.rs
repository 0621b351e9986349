//! Pauses: queues, reactions and workflows of which nothing new is leased, in any process.
//!
//! One record of the store lists what is paused. A handle reads it at most once in
//! [`MAX_AGE`], and only when it is about to lease something, however many queues it serves. So a
//! pause takes effect everywhere within that time, and costs one read a second where there is
//! none. What is leased already is not interrupted.

mod keys;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, QueueName, RawJson, RecordWrite, Result, RetryAdvice,
    Slot, Store, StoreError, StoreErrorKind, StoreExt, StoreOperation, Timestamp,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::reactions::reaction_of;
use crate::runs::keys::workflow_of;

/// How long a process relies on what it has read.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How often a change of the record is tried when others change it at the same time.
const ATTEMPTS: usize = 20;

/// What can be paused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
#[non_exhaustive]
pub enum PauseSubject {
    /// A queue of users: its jobs and items.
    Queue(String),
    /// The handlers of a reaction. Its events are still routed, so that the backlog can be seen.
    Reaction(String),
    /// The runs of a workflow, in all versions.
    Workflow(String),
}

impl PauseSubject {
    /// What has to be paused so that this queue is; none, if nothing can pause it.
    pub(crate) fn of(queue: &QueueName) -> Option<Self> {
        if let Some(reaction) = reaction_of(queue) {
            return Some(Self::Reaction(reaction.to_owned()));
        }
        if let Some((workflow, _)) = workflow_of(queue) {
            return Some(Self::Workflow(workflow.to_owned()));
        }
        let is_reserved = crate::reactions::is_reserved(queue.as_str());
        (!is_reserved).then(|| Self::Queue(queue.as_str().to_owned()))
    }
}

/// Something that is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PauseInfo {
    /// What is paused.
    pub subject: PauseSubject,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

type Paused = BTreeMap<PauseSubject, PauseInfo>;

/// What is paused, as a process has last read it.
#[derive(Debug)]
pub(crate) struct Pauses {
    store: Arc<dyn Store>,
    known: Mutex<Option<(Instant, Arc<Paused>)>>,
}

impl Pauses {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// Whether this is paused, according to a reading that is not older than [`MAX_AGE`].
    pub(crate) async fn has(&self, subject: &PauseSubject) -> Result<bool> {
        let mut known = self.known.lock().await;
        if let Some((read, paused)) = &*known
            && read.elapsed() < MAX_AGE
        {
            return Ok(paused.contains_key(subject));
        }
        let began = Instant::now();
        let paused = Arc::new(of(&self.store.get_one(&keys::paused()).await?)?);
        let is_paused = paused.contains_key(subject);
        *known = Some((began, paused));
        Ok(is_paused)
    }
}

/// Lists what is paused.
pub(crate) async fn list(store: &dyn Store) -> Result<Vec<PauseInfo>> {
    Ok(of(&store.get_one(&keys::paused()).await?)?.into_values().collect())
}

/// Pauses a subject, and returns whether it was not paused before. The reason is replaced.
pub(crate) async fn pause(store: &dyn Store, subject: PauseSubject, reason: &str) -> Result<bool> {
    let now = store.now().await?;
    change(store, |paused| {
        let since = paused.get(&subject).map_or(now, |there| there.since);
        let info = PauseInfo { subject: subject.clone(), reason: reason.to_owned(), since };
        paused.insert(subject.clone(), info).is_none()
    })
    .await
}

/// Resumes a subject, and returns whether it was paused.
pub(crate) async fn resume(store: &dyn Store, subject: &PauseSubject) -> Result<bool> {
    change(store, |paused| paused.remove(subject).is_some()).await
}

/// Changes the record with optimistic concurrency.
async fn change(store: &dyn Store, change: impl Fn(&mut Paused) -> bool) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        let slot = store.get_one(&keys::paused()).await?;
        let before = of(&slot)?;
        let mut after = before.clone();
        let changed = change(&mut after);
        if after == before {
            return Ok(changed);
        }
        let expected = slot
            .live()
            .map_or(ExpectedRevision::Absent, |record| ExpectedRevision::Revision(record.revision));
        let write = match after.is_empty() {
            true => RecordWrite::delete(&keys::paused(), expected),
            false => {
                let listed: Vec<_> = after.into_values().collect();
                RecordWrite::put(&keys::paused(), expected, RawJson::new(&listed)?)
            }
        };
        let commit = Commit::new().with_retry_id().write(write);
        if let CommitOutcome::Committed(_) = store.commit(commit).await? {
            return Ok(changed);
        }
    }
    let why = "what is paused was changed concurrently each time; try again";
    Err(StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Later,
        StoreOperation::Commit,
        why,
    ))
}

fn of(slot: &Slot) -> Result<Paused> {
    let Some(record) = slot.live() else { return Ok(Paused::new()) };
    let listed: Vec<PauseInfo> = record.value.to()?;
    Ok(listed.into_iter().map(|info| (info.subject.clone(), info)).collect())
}
