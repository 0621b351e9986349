//! Enqueuing many jobs of one type, in as few commits as the limits allow.

use std::fmt;
use std::future::IntoFuture;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{
    Commit, CommitOutcome, Part, Result as StoreResult, StoreError, When, limits,
};

use super::enqueue::{EnqueueRequest, Enqueued, Proposed};
use super::{Job, OnDuplicate};
use crate::error::Result;
use crate::events::submit;
use crate::handle::Tidelock;
use crate::metadata::Metadata;

/// The most jobs in one commit: each takes up to four parts.
const JOBS_PER_COMMIT: usize = limits::PARTS_PER_COMMIT / 4;

/// The most bytes of payloads in one commit. One payload always fits.
const BYTES_PER_COMMIT: usize = limits::COMMIT_BYTES / 2;

/// Jobs to enqueue. Await it to get the outcome of each, in order.
///
/// They are enqueued in commits of up to 250 jobs, or 8 MiB of payloads. Each commit holds or not
/// as a whole; after an error, the jobs of earlier commits are enqueued. Enqueue jobs with
/// [keys](Self::keys) if the call may be repeated.
#[must_use = "nothing is enqueued until this is awaited"]
pub struct EnqueueAll<J> {
    tidelock: Tidelock,
    jobs: Vec<J>,
    requests: StoreResult<Vec<EnqueueRequest>>,
}

impl<J: Job> EnqueueAll<J> {
    pub(super) fn new(tidelock: &Tidelock, jobs: impl IntoIterator<Item = J>) -> Self {
        let jobs: Vec<J> = jobs.into_iter().collect();
        let requests = jobs.iter().map(|job| EnqueueRequest::new(job, Metadata::new())).collect();
        Self { tidelock: tidelock.clone(), jobs, requests }
    }

    /// Sets the key of each job, as [`Enqueue::key`](super::Enqueue::key) does for one. Jobs of one
    /// call have different keys.
    pub fn keys<K: AsRef<str>>(mut self, key: impl Fn(&J) -> K) -> Self {
        if let Ok(requests) = &mut self.requests {
            for (request, job) in requests.iter_mut().zip(&self.jobs) {
                request.key = Some(key(job).as_ref().to_owned());
            }
        }
        self
    }
}

impl<J> EnqueueAll<J> {
    /// Sets what happens to unfinished jobs under the same keys. By default they are kept.
    pub fn on_duplicate(self, policy: OnDuplicate) -> Self {
        self.with(|request| request.on_duplicate = policy)
    }

    /// Sets when the jobs are due: after a duration, or at a time.
    pub fn at(self, due: impl Into<When>) -> Self {
        let due = due.into();
        self.with(|request| request.due = due)
    }

    /// Sets the metadata that events of the handlers inherit.
    pub fn metadata(self, metadata: &Metadata) -> Self {
        self.with(|request| request.metadata = metadata.clone())
    }

    fn with(mut self, change: impl Fn(&mut EnqueueRequest)) -> Self {
        if let Ok(requests) = &mut self.requests {
            requests.iter_mut().for_each(change);
        }
        self
    }
}

impl<J> fmt::Debug for EnqueueAll<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueAll").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl<J> IntoFuture for EnqueueAll<J> {
    type Output = Result<Vec<Enqueued>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { tidelock, requests, .. } = self;
        async move { Ok(enqueue(&tidelock, &requests?).await?) }.boxed()
    }
}

async fn enqueue(tidelock: &Tidelock, requests: &[EnqueueRequest]) -> StoreResult<Vec<Enqueued>> {
    let mut outcomes = Vec::with_capacity(requests.len());
    let mut left = requests;
    while !left.is_empty() {
        let (some, rest) = left.split_at(fitting(left));
        outcomes.extend(enqueue_in_one(tidelock, some).await?);
        left = rest;
    }
    Ok(outcomes)
}

/// How many of the next jobs fit into one commit.
fn fitting(requests: &[EnqueueRequest]) -> usize {
    let mut bytes = 0;
    let fits = |request: &&EnqueueRequest| {
        bytes += request.payload.as_str().len();
        bytes <= BYTES_PER_COMMIT
    };
    requests.iter().take(JOBS_PER_COMMIT).take_while(fits).count().max(1)
}

/// Enqueues them in one commit. Jobs whose keys are taken are decided again.
async fn enqueue_in_one(
    tidelock: &Tidelock,
    requests: &[EnqueueRequest],
) -> StoreResult<Vec<Enqueued>> {
    let store = &**tidelock.store();
    let mut proposed: Vec<Proposed> =
        requests.iter().map(EnqueueRequest::as_new).collect::<StoreResult<_>>()?;
    let mut attempts = tidelock.retry().begin();
    loop {
        let (commit, owners) = join(&proposed);
        if commit.writes.is_empty() {
            break;
        }
        let commit = submit::ensure_retry_id(commit);
        let sent = submit::send(store, &commit, tidelock.retry(), tidelock.random()).await?;
        let CommitOutcome::Conflict(conflict) = sent else { break };
        let owner = |part: Part| match part {
            Part::Write(at) => owners.writes.get(at).copied(),
            Part::Guard(at) => owners.guards.get(at).copied(),
            _ => None,
        };
        for nth in conflict.violations.iter().filter_map(|violation| owner(violation.part)) {
            proposed[nth] = requests[nth].propose(store).await?;
        }
        if !attempts.next(tidelock.random()).await {
            return Err(StoreError::new(
                tidelock_store::StoreErrorKind::Unavailable,
                tidelock_store::RetryAdvice::Later,
                tidelock_store::StoreOperation::Commit,
                "jobs were enqueued concurrently under the same keys; try again",
            ));
        }
    }
    Ok(proposed.into_iter().map(|proposed| proposed.outcome).collect())
}

/// Which job each part of a commit belongs to.
#[derive(Default)]
struct Owners {
    writes: Vec<usize>,
    guards: Vec<usize>,
}

fn join(proposed: &[Proposed]) -> (Commit, Owners) {
    let (mut commit, mut owners) = (Commit::new(), Owners::default());
    for (nth, Proposed { commit: parts, .. }) in proposed.iter().enumerate() {
        owners.writes.extend(parts.writes.iter().map(|_| nth));
        owners.guards.extend(parts.guards.iter().map(|_| nth));
        commit.writes.extend(parts.writes.iter().cloned());
        commit.guards.extend(parts.guards.iter().cloned());
        commit.wakes.extend(parts.wakes.iter().cloned());
    }
    (commit, owners)
}
