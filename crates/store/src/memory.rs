//! The in-memory store: the executable specification of the contract.
//!
//! It is as strict as the durable stores, and its data is gone with its last handle. Every call
//! takes one lock for as long as it reads or writes maps, so calls are linearizable. Nothing waits
//! while holding the lock.

mod leases;
mod log;
mod records;
mod state;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::capabilities::Capabilities;
use crate::clock::{Clock, StoreClock, Timestamp};
use crate::commit::{Commit, CommitOutcome};
use crate::error::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use crate::leases::{
    Adjusted, Adjustment, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased,
    Renewal, check_renewal,
};
use crate::log::{FeedPage, FeedQuery, HeadPage, HeadQuery, StreamPage, StreamQuery, check_names};
use crate::names::RecordKey;
use crate::plan::{self, Decided, FairShare, YieldOnce};
use crate::records::{RecordPage, RecordQuery, Slot};
use crate::signal::{ChangeHint, ChangeHints, Topic};
use crate::store::Store;
use state::State;

/// An in-memory store. Clones are handles to the same store.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

/// Rows past their retention that each commit removes, so that no commit pays for all of them.
const SWEEP_PER_COMMIT: usize = 8;

/// Rows that an explicit sweep removes per lock.
const SWEEP_AT_ONCE: usize = 1_000;

/// Consecutive calls of a task before it yields to other tasks of its thread.
const CALLS_IN_A_ROW: usize = 64;

#[derive(Debug, Default)]
struct Shared {
    calls: AtomicUsize,
    clock: StoreClock,
    turns: FairShare,
    signals: ChangeHints,
    /// None once the store is closed.
    state: Mutex<OpenState>,
}

#[derive(Debug)]
struct OpenState(Option<State>);

impl Default for OpenState {
    fn default() -> Self {
        Self(Some(State::default()))
    }
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty store with this time source.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::new(Shared { clock: StoreClock::new(clock), ..Shared::default() }) }
    }

    /// Removes everything past its retention now, instead of a little with every commit.
    ///
    /// # Errors
    /// `Unavailable` if the store is closed.
    pub async fn sweep(&self) -> Result<()> {
        while self
            .with(StoreOperation::Commit, |state, now| Ok(state.sweep(now, SWEEP_AT_ONCE)))
            .await?
        {}
        Ok(())
    }

    /// Runs a call under the lock; yields to other tasks from time to time.
    async fn with<T>(
        &self,
        operation: StoreOperation,
        act: impl FnOnce(&mut State, Timestamp) -> Result<T>,
    ) -> Result<T> {
        if self.shared.calls.fetch_add(1, Ordering::Relaxed) % CALLS_IN_A_ROW == CALLS_IN_A_ROW - 1
        {
            YieldOnce::default().await;
        }
        self.at_once(operation, act)
    }

    fn at_once<T>(
        &self,
        operation: StoreOperation,
        act: impl FnOnce(&mut State, Timestamp) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let state = state.0.as_mut().ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Unavailable,
                RetryAdvice::Never,
                operation,
                "the store was closed: open it again",
            )
        })?;
        // Inside the lock, so that times are in the order of the calls.
        let now = self.shared.clock.now();
        act(state, now).map_err(|e| e.during(operation))
    }

    fn lock(&self) -> MutexGuard<'_, OpenState> {
        // A panic can only have happened while deciding; the maps are changed after that.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("memory", false, false)
    }

    async fn now(&self) -> Result<Timestamp> {
        self.with(StoreOperation::Now, |_, now| Ok(now)).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        commit.check().map_err(|e| e.during(StoreOperation::Commit))?;
        let (outcome, topics) = self
            .with(StoreOperation::Commit, |state, now| {
                state.sweep(now, SWEEP_PER_COMMIT);
                Ok(match plan::decide(&commit, now, state)? {
                    Decided::Replay(committed) => (CommitOutcome::Committed(committed), Vec::new()),
                    Decided::Conflict(conflict) => (CommitOutcome::Conflict(conflict), Vec::new()),
                    Decided::Apply(plan) => {
                        let waited_for = self.shared.signals.any_waiter();
                        let topics = if waited_for { plan.topics().collect() } else { Vec::new() };
                        (CommitOutcome::Committed(state.apply(*plan)), topics)
                    }
                })
            })
            .await?;
        self.shared.signals.notify(&topics);
        Ok(outcome)
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        query.check().map_err(|e| e.during(StoreOperation::ReadStream))?;
        self.with(StoreOperation::ReadStream, |state, _| Ok(state.read_stream(&query))).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        query.check().map_err(|e| e.during(StoreOperation::ReadFeed))?;
        self.with(StoreOperation::ReadFeed, |state, _| state.read_feed(&query)).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        query.check().map_err(|e| e.during(StoreOperation::Heads))?;
        self.with(StoreOperation::Heads, |state, _| Ok(state.heads(query))).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        check_names(keys.len()).map_err(|e| e.during(StoreOperation::Get))?;
        self.with(StoreOperation::Get, |state, now| {
            Ok(keys.iter().map(|key| state.slot(key, now)).collect())
        })
        .await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        query.check().map_err(|e| e.during(StoreOperation::Scan))?;
        self.with(StoreOperation::Scan, |state, now| Ok(state.scan(&query, now))).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        request.check().map_err(|e| e.during(StoreOperation::Lease))?;
        self.with(StoreOperation::Lease, |state, now| {
            Ok(state.lease(&request, &self.shared.turns, now))
        })
        .await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        check_renewal(leases, duration).map_err(|e| e.during(StoreOperation::Renew))?;
        self.with(StoreOperation::Renew, |state, now| {
            Ok(leases.iter().map(|token| state.renew(token, duration, now)).collect())
        })
        .await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        query.check().map_err(|e| e.during(StoreOperation::Items))?;
        self.with(StoreOperation::Items, |state, _| Ok(state.list(&query))).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        filter.check().map_err(|e| e.during(StoreOperation::Adjust))?;
        adjustment.check().map_err(|e| e.during(StoreOperation::Adjust))?;
        let (adjusted, topics) = self
            .with(StoreOperation::Adjust, |state, now| Ok(state.adjust(&filter, &adjustment, now)))
            .await?;
        self.shared.signals.notify(&topics);
        Ok(adjusted)
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        self.shared.signals.signal(topic)
    }

    async fn close(&self) -> Result<()> {
        self.lock().0 = None;
        self.shared.signals.notify_all();
        Ok(())
    }
}
