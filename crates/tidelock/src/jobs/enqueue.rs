//! Enqueuing a job.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{
    Commit, CommitOutcome, EventId, ExpectedRevision, ItemKey, ItemRef, LaneName, Priority,
    QueueName, RawJson, RecordWrite, Result as StoreResult, Slot, Store, StoreError, Wake, When,
};
use uuid::Uuid;

use super::job_record::{EndedAs, JobRecord};
use super::{Job, keys};
use crate::bounds;
use crate::error::{Error, ErrorKind, Result};
use crate::events::submit;
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::queues::{self, keys::data};
use crate::staging::{Decision, Tx};

/// What an enqueue does about an unfinished job under the same key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// It leaves that job as it is.
    #[default]
    Keep,
    /// It replaces the payload of that job. If the job is running, it runs again afterwards with
    /// the new payload. The earlier of the two due times counts, and the job keeps its lane, its
    /// priority and its failures.
    Replace,
}

/// The outcome of an enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// There is a new job under this key.
    New(ItemKey),
    /// There was an unfinished job under this key, or one that finished within its
    /// [window](super::JobOptions::unique_for). Nothing was changed.
    Duplicate(ItemKey),
    /// There was an unfinished job under this key, and its payload was replaced.
    Replaced(ItemKey),
}

impl Enqueued {
    /// Returns the key of the job: the given one, or a generated one.
    pub fn key(&self) -> &str {
        match self {
            Self::New(key) | Self::Duplicate(key) | Self::Replaced(key) => key.as_str(),
        }
    }

    /// Whether there is a new job.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }
}

/// A job to enqueue. Await it.
///
/// On the handle it is a commit of its own; in a [`Tx`] it is staged, and lands with the rest.
#[must_use = "nothing is enqueued until this is awaited"]
pub struct Enqueue<J> {
    target: Target,
    request: StoreResult<EnqueueRequest>,
    operation: Option<String>,
    job: PhantomData<fn() -> J>,
}

/// Where the enqueue goes.
enum Target {
    Store(Tidelock),
    Tx(Tx),
}

impl<J: Job> Enqueue<J> {
    pub(super) fn into_store(tidelock: &Tidelock, job: &J) -> Self {
        Self::new(Target::Store(tidelock.clone()), job, Metadata::new())
    }

    pub(crate) fn into_tx(tx: &Tx, job: &J) -> Self {
        Self::new(Target::Tx(tx.clone()), job, tx.metadata().clone())
    }

    fn new(target: Target, job: &J, metadata: Metadata) -> Self {
        let request = EnqueueRequest::new(job, metadata);
        Self { target, request, operation: None, job: PhantomData }
    }
}

impl<J> Enqueue<J> {
    /// Sets the key. While a job under this key is unfinished, whether it waits, runs, will be
    /// retried or is blocked, another enqueue under the key is a
    /// [duplicate](Self::on_duplicate). Afterwards the key is free, or taken for the
    /// [window](super::JobOptions::unique_for) of the job type.
    ///
    /// Without a key, each enqueue is another job.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        let key = key.as_ref().to_owned();
        self.with(|request| request.key = Some(key))
    }

    /// Sets what happens to an unfinished job under the same key. By default it is kept.
    pub fn on_duplicate(self, policy: OnDuplicate) -> Self {
        self.with(|request| request.on_duplicate = policy)
    }

    /// Sets when the job is due: after a duration, or at a time.
    pub fn at(self, due: impl Into<When>) -> Self {
        let due = due.into();
        self.with(|request| request.due = due)
    }

    /// Sets the priority, from -100 to 100. Higher goes first; one slot in four goes to the job
    /// that has waited longest, so nothing starves.
    pub fn priority(mut self, priority: i16) -> Self {
        match Priority::new(priority) {
            Ok(priority) => self.with(|request| request.priority = Some(priority)),
            Err(error) => {
                self.request = self.request.and(Err(error));
                self
            }
        }
    }

    /// Sets the lane, which decides which workers serve the job.
    pub fn lane(mut self, lane: impl AsRef<str>) -> Self {
        match LaneName::new(lane.as_ref()) {
            Ok(lane) => self.with(|request| request.lane = Some(lane)),
            Err(error) => {
                self.request = self.request.and(Err(error));
                self
            }
        }
    }

    /// Sets the metadata that events of the handler inherit. In a unit of work, it is that of the
    /// unit by default.
    pub fn metadata(self, metadata: Metadata) -> Self {
        self.with(|request| request.metadata = metadata)
    }

    /// Makes the call idempotent: under this id the job is enqueued once, even if it has finished
    /// since. The id is remembered for seven days, with the same payload and options.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        self
    }

    fn with(mut self, change: impl FnOnce(&mut EnqueueRequest)) -> Self {
        if let Ok(request) = &mut self.request {
            change(request);
        }
        self
    }

    async fn send(self) -> Result<Enqueued> {
        let (mut request, operation) = (self.request?, self.operation);
        operation.as_deref().map_or(Ok(()), bounds::names)?;
        match self.target {
            Target::Store(tidelock) => {
                if let Some(id) = &operation {
                    request.key.get_or_insert_with(|| derived_key(&request.queue, id));
                }
                request.store(&tidelock, operation.as_deref()).await
            }
            Target::Tx(_) if operation.is_some() => Err(StoreError::invalid(
                "an enqueue with an operation id has its own commit; leave the id out in a transaction, which happens once",
            )
            .into()),
            Target::Tx(tx) => request.stage(&tx).await,
        }
    }
}

impl<J> fmt::Debug for Enqueue<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue")
            .field("queue", &self.request.as_ref().map(|request| &request.queue))
            .finish_non_exhaustive()
    }
}

impl<J> IntoFuture for Enqueue<J> {
    type Output = Result<Enqueued>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { target, request, operation, .. } = self;
        Enqueue::<()> { target, request, operation, job: PhantomData }.send().boxed()
    }
}

/// What is to be enqueued, independent of its type.
#[derive(Debug, Clone)]
pub(crate) struct EnqueueRequest {
    pub(crate) queue: QueueName,
    pub(crate) key: Option<String>,
    pub(crate) payload: RawJson,
    pub(crate) due: When,
    pub(crate) lane: Option<LaneName>,
    pub(crate) priority: Option<Priority>,
    pub(crate) on_duplicate: OnDuplicate,
    pub(crate) unique_for: Option<Duration>,
    pub(crate) metadata: Metadata,
}

/// A decided enqueue: its commit, and its outcome once that is committed.
pub(crate) struct Proposed {
    pub(crate) commit: Commit,
    pub(crate) outcome: Enqueued,
}

impl EnqueueRequest {
    pub(crate) fn new<J: Job>(job: &J, metadata: Metadata) -> StoreResult<Self> {
        Ok(Self {
            queue: queues::checked_name(J::QUEUE)?,
            key: None,
            payload: RawJson::new(job).map_err(|e| e.about("payload of a job"))?,
            due: When::NOW,
            lane: None,
            priority: None,
            on_duplicate: OnDuplicate::default(),
            unique_for: J::options().unique_for,
            metadata,
        })
    }

    /// The job of an occurrence of a schedule.
    pub(crate) fn scheduled(queue: QueueName, key: &str, payload: RawJson) -> Self {
        Self {
            queue,
            key: Some(key.to_owned()),
            payload,
            due: When::NOW,
            lane: None,
            priority: None,
            on_duplicate: OnDuplicate::Keep,
            unique_for: None,
            metadata: Metadata::new(),
        }
    }

    /// Enqueues it in a commit of its own.
    async fn store(self, tidelock: &Tidelock, operation: Option<&str>) -> Result<Enqueued> {
        let store = &**tidelock.store();
        let mut attempts = tidelock.retry().begin();
        let mut proposed = self.as_new()?;
        loop {
            let commit = match operation {
                Some(id) => submit::derive_id(proposed.commit, id),
                None => submit::ensure_retry_id(proposed.commit),
            };
            let sent = submit::send(store, &commit, tidelock.retry(), tidelock.random()).await?;
            if let CommitOutcome::Committed(_) = sent {
                return Ok(proposed.outcome);
            }
            if !attempts.next(tidelock.random()).await {
                let why = format!(
                    "a job was enqueued concurrently {} times under its key",
                    attempts.made
                );
                return Err(Error::new(ErrorKind::Contended, why).retryable());
            }
            proposed = match self.propose(store).await? {
                // Nothing to commit, and so nothing that could conflict.
                proposed if proposed.commit.writes.is_empty() => return Ok(proposed.outcome),
                proposed => proposed,
            };
        }
    }

    /// Stages it; on a conflict it is decided again, without the closure or handler.
    async fn stage(self, tx: &Tx) -> Result<Enqueued> {
        if self.key.is_none() {
            let Proposed { commit, outcome } = self.as_new()?;
            tx.parts(commit)?;
            return Ok(outcome);
        }
        let first = self.propose(&**tx.store()).await?;
        let (store, outcome) = (tx.store().clone(), first.outcome);
        let again = move || {
            let (request, store) = (self.clone(), store.clone());
            async move {
                let proposed = request.propose(&*store).await.map_err(HandlerError::again)?;
                Ok(proposed.commit)
            }
            .boxed()
        };
        let decision = Decision::taken(Box::new(again), first.commit);
        tx.staged(|staged| staged.decisions.push(decision))?;
        Ok(outcome)
    }

    /// Proposes a new job, without looking whether there is one: the commit is refused then.
    pub(crate) fn as_new(&self) -> StoreResult<Proposed> {
        let item = self.item()?;
        let commit = self.parts(&item, ExpectedRevision::Absent)?;
        let commit = match &self.key {
            None => commit,
            Some(_) if self.unique_for.is_some() => {
                commit.guard_record(&keys::job(&item), ExpectedRevision::Absent)
            }
            Some(_) => commit,
        };
        Ok(Proposed { commit, outcome: Enqueued::New(item.key) })
    }

    /// Decides by what is there now.
    pub(crate) async fn propose(&self, store: &dyn Store) -> StoreResult<Proposed> {
        let item = self.item()?;
        let slots = store.get(&[data(&item), keys::job(&item)]).await?;
        if let Some(payload) = slots[0].live() {
            let expected = ExpectedRevision::Revision(payload.revision);
            return match self.on_duplicate {
                OnDuplicate::Keep => Ok(Proposed {
                    commit: Commit::new().guard_record(&payload.key, expected),
                    outcome: Enqueued::Duplicate(item.key),
                }),
                OnDuplicate::Replace => Ok(Proposed {
                    commit: self.parts(&item, expected)?,
                    outcome: Enqueued::Replaced(item.key),
                }),
            };
        }
        if self.is_within_window(store, &slots[1]).await? {
            let commit = Commit::new().guard_record(&keys::job(&item), as_found(&slots[1]));
            return Ok(Proposed { commit, outcome: Enqueued::Duplicate(item.key) });
        }
        let mut commit = self.parts(&item, ExpectedRevision::Absent)?;
        if self.unique_for.is_some() {
            commit = commit.guard_record(&keys::job(&item), as_found(&slots[1]));
        }
        Ok(Proposed { commit, outcome: Enqueued::New(item.key) })
    }

    /// Whether an earlier job under the key finished so recently that this one is a duplicate.
    async fn is_within_window(&self, store: &dyn Store, record: &Slot) -> StoreResult<bool> {
        let Some(window) = self.unique_for else { return Ok(false) };
        let ended = JobRecord::read(record)?.end.filter(|end| end.outcome == EndedAs::Done);
        let expires_at = record.live().and_then(|record| record.expires_at);
        let Some(at) = ended.and_then(|end| end.at(expires_at)) else { return Ok(false) };
        Ok(store.now().await?.since(at) < window)
    }

    fn item(&self) -> StoreResult<ItemRef> {
        let key = match &self.key {
            Some(key) => ItemKey::new(key.as_str())?,
            None => ItemKey::new(EventId::fresh().to_string())?,
        };
        Ok(ItemRef::new(&self.queue, &key))
    }

    /// The payload, the record and the wake of a job.
    fn parts(&self, item: &ItemRef, expected: ExpectedRevision) -> StoreResult<Commit> {
        // What an earlier job under the key left behind does not belong to this one.
        let left = self
            .key
            .is_some()
            .then(|| RecordWrite::delete(&keys::job(item), ExpectedRevision::Any));
        let record = match JobRecord::enqueued(&self.metadata)? {
            Some(record) => Some(record.write(item)?),
            None => left,
        };
        let wake = Wake {
            lane: self.lane.clone(),
            priority: self.priority,
            ..Wake::at(item.clone(), self.due)
        };
        let commit = Commit::new()
            .write(RecordWrite::put(&data(item), expected, self.payload.clone()))
            .wake(wake);
        Ok(record.into_iter().fold(commit, Commit::write))
    }
}

/// The record as it was read.
fn as_found(slot: &Slot) -> ExpectedRevision {
    slot.live()
        .map_or(ExpectedRevision::Absent, |record| ExpectedRevision::Revision(record.revision))
}

/// The key of a job that has none, for an operation: the same for each repeat.
fn derived_key(queue: &QueueName, operation: &str) -> String {
    let name = format!("{queue}\0{operation}");
    Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
}

impl Tx {
    /// Stages a job: see [`Enqueue`]. It is enqueued with the rest of the unit of work, or not at
    /// all.
    ///
    /// Whether a staged job is a duplicate is decided at the commit; the outcome says how it was
    /// when it was staged.
    pub fn enqueue<J: Job>(&self, job: &J) -> Enqueue<J> {
        Enqueue::into_tx(self, job)
    }
}
