//! Bulk operations: cancel, terminate or retry the runs that a filter selects, a batch at a time.
//!
//! A batch is a page of the listing, each run operated on by a commit of its own. So the caller
//! has the progress, can stop between two batches, and goes on from the cursor of the last one;
//! begun again from the start it finds only what is left.

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use super::listing::{self, RunCursor, RunFilter};
use super::{RunHandle, RunInfo};
use crate::handle::Tidelock;
use crate::list::Page;
use crate::runs::{RunError, RunId, RunState, RunStatus};

/// Runs of a batch that are operated on at the same time. Their commits share transactions.
const CONCURRENT: usize = 16;

/// Runs of a batch, unless another number is asked for.
const BATCH: usize = 100;

/// A bulk operation on the runs that match a filter. See [`Runs::bulk`](super::Runs::bulk).
#[derive(Debug, Clone)]
#[must_use = "nothing happens until cancel, terminate, retry or count is awaited"]
pub struct BulkRuns {
    tidelock: Tidelock,
    filter: RunFilter,
    parked: bool,
    after: Option<RunCursor>,
    limit: usize,
    operation: Option<String>,
}

/// What became of one batch of a bulk operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunBatch {
    /// How many runs matched.
    pub matched: u64,
    /// How many of them were changed.
    pub changed: u64,
    /// Those that could not be, each with the reason.
    pub refused: Vec<RefusedRun>,
    /// Where the next batch begins; none after the last one.
    pub next: Option<RunCursor>,
}

/// A run that a bulk operation could not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedRun {
    /// The run.
    pub run: RunId,
    /// Why: it may have ended meanwhile, or was compensated and cannot be retried.
    pub error: String,
}

impl BulkRuns {
    pub(super) fn new(tidelock: Tidelock, filter: RunFilter) -> Self {
        Self { tidelock, filter, parked: false, after: None, limit: BATCH, operation: None }
    }

    /// Restricts to runs that are [parked](RunStatus::Parked).
    pub fn parked(mut self, parked: bool) -> Self {
        self.parked = parked;
        self
    }

    /// Begins after this place: [`next`](RunBatch::next) of the batch before.
    pub fn after(mut self, place: Option<RunCursor>) -> Self {
        self.after = place;
        self
    }

    /// Sets how many runs are looked at, 100 by default.
    pub fn limit(mut self, runs: usize) -> Self {
        self.limit = runs;
        self
    }

    /// Sets an idempotency key: the batch sent again under it changes each run once, as a request
    /// to a single run does.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        self
    }

    /// Counts the runs of a batch that a call would operate on: open ones for `cancel` and
    /// `terminate`, failed ones for `retry`.
    ///
    /// # Errors
    /// `Invalid` if the filter has an invalid name or the limit is 0; the store's errors.
    pub async fn count(&self, action: RunAction) -> Result<RunBatch, RunError> {
        let page = self.page(action).await?;
        Ok(RunBatch { matched: page.items.len() as u64, next: page.next, ..RunBatch::default() })
    }

    /// Requests the cancellation of the open runs of a batch.
    ///
    /// # Errors
    /// As [`count`](Self::count). Runs before the error may be changed: the same call again, under
    /// the same operation id, changes the rest.
    pub async fn cancel(&self, reason: &str) -> Result<RunBatch, RunError> {
        self.carry_out(RunAction::Cancel, reason).await
    }

    /// Terminates the open runs of a batch at once, without clean-up.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    pub async fn terminate(&self, reason: &str) -> Result<RunBatch, RunError> {
        self.carry_out(RunAction::Terminate, reason).await
    }

    /// Retries the failed runs of a batch from the steps that failed.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    pub async fn retry(&self, reason: &str) -> Result<RunBatch, RunError> {
        self.carry_out(RunAction::Retry, reason).await
    }

    /// Does what `action` says.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    pub async fn carry_out(&self, action: RunAction, reason: &str) -> Result<RunBatch, RunError> {
        let page = self.page(action).await?;
        let matched = page.items.len() as u64;
        let operate = |run: RunInfo| self.operate(run.run, action, reason);
        let refused: Vec<Option<RefusedRun>> = stream::iter(page.items.into_iter().map(operate))
            .buffered(CONCURRENT)
            .try_collect()
            .await?;
        let refused: Vec<_> = refused.into_iter().flatten().collect();
        Ok(RunBatch { matched, changed: matched - refused.len() as u64, refused, next: page.next })
    }

    /// Operates on one run; returns it if it is in another state by now.
    async fn operate(
        &self,
        run: RunId,
        action: RunAction,
        reason: &str,
    ) -> Result<Option<RefusedRun>, RunError> {
        let handle: RunHandle = RunHandle::new(self.tidelock.clone(), Ok(run.clone()));
        let handle = match &self.operation {
            Some(id) => handle.operation_id(id),
            None => handle,
        };
        let done = match action {
            RunAction::Cancel => handle.cancel(reason).await,
            RunAction::Terminate => handle.terminate(reason).await,
            RunAction::Retry => handle.retry(reason).await,
        };
        match done {
            Ok(()) => Ok(None),
            Err(error @ (RunError::Store(_) | RunError::Name(_))) => Err(error),
            Err(error) => Ok(Some(RefusedRun { run, error: error.to_string() })),
        }
    }

    async fn page(&self, action: RunAction) -> Result<Page<RunInfo, RunCursor>, RunError> {
        let state = action.acts_on();
        if !self.filter.allows(state) {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let (store, filter) = (&**self.tidelock.store(), self.filter.clone().only(state));
        let mut page = listing::list(store, &filter, self.after.clone(), self.limit).await?;
        if self.parked {
            let items = stream::iter(page.items).map(|run| self.if_parked(run));
            page.items = items
                .buffered(CONCURRENT)
                .try_filter_map(async |run| Ok(run))
                .try_collect()
                .await?;
        }
        Ok(page)
    }

    async fn if_parked(&self, run: RunInfo) -> Result<Option<RunInfo>, RunError> {
        let handle: RunHandle = RunHandle::new(self.tidelock.clone(), Ok(run.run.clone()));
        match handle.status().await {
            Ok(RunStatus::Parked { .. }) => Ok(Some(run)),
            Ok(_) | Err(RunError::NoRun { .. } | RunError::Removed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a bulk operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunAction {
    /// Requests cancellation, with clean-up.
    Cancel,
    /// Ends runs at once.
    Terminate,
    /// Continues failed runs from the steps that failed.
    Retry,
}

impl RunAction {
    /// The state of the runs that it is for.
    fn acts_on(self) -> RunState {
        match self {
            Self::Cancel | Self::Terminate => RunState::Open,
            Self::Retry => RunState::Failed,
        }
    }
}
