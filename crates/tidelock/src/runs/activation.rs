//! Activation: one turn of a run on one worker, shared by the workflow function and its driver.
//!
//! It is the shell of the [replay core](super::replay): it holds what the core is free of, wakers,
//! the store's time, staged writes, compensations.
//!
//! The function's side never waits for the store: it queues entries, and the driver writes them.

mod op;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use tidelock_store::{NewEvent, Result, Store, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::RunId;
use super::ctx::Compensation;
use super::replay::{Batch, Exit, OpId, Replay, Wake};
use super::summary::Summarized;
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::staging::Staged;
use crate::worker::LeasedTask;

pub(crate) use op::Op;

/// The state shared by the function and the driver.
#[derive(Debug)]
pub(crate) struct Activation {
    pub(crate) tidelock: Tidelock,
    pub(crate) task: LeasedTask,
    /// As it was when the turn began.
    pub(crate) summarized: Summarized,
    /// Whether the function changes the summary in this turn.
    summary_changed: AtomicBool,
    /// Metadata of the events that the run causes.
    pub(crate) metadata: Metadata,
    /// The store's time when the lease was granted, and the local time of that moment.
    granted: (Timestamp, Instant),
    /// Wakes the function.
    function: OnceLock<Waker>,
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    replay: Replay,
    /// Wakers of waiting operations.
    wakers: BTreeMap<OpId, Waker>,
    /// Writes that operations staged.
    staged: HashMap<OpId, Box<StagedWrites>>,
    /// Steps that can be compensated, in the order of their completion.
    compensations: Vec<Compensation>,
}

/// Writes that are committed together with an entry.
#[derive(Debug)]
pub(crate) struct StagedWrites {
    pub(crate) staged: Staged,
    reply: oneshot::Sender<LandingOutcome>,
}

/// The outcome of such a commit.
#[derive(Debug)]
pub(crate) enum LandingOutcome {
    Committed,
    /// The step has to run again: its transaction is over, and nothing was written.
    Restage,
    /// A staged write was refused.
    Refused(HandlerError),
}

/// One commit: a batch of entries, and the staged writes that belong to one of them.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) batch: Batch<NewEvent>,
    pub(crate) writes: Option<Box<StagedWrites>>,
}

impl Outgoing {
    /// Answers the operation that staged writes. One that no longer waits has been dropped.
    pub(crate) fn answer(&mut self, outcome: LandingOutcome) {
        if let Some(writes) = self.writes.take() {
            let _answered = writes.reply.send(outcome);
        }
    }
}

thread_local! {
    /// The address of the activation whose function this thread polls, or 0.
    static POLLED: Cell<usize> = const { Cell::new(0) };
}

/// Restores what the thread polled before.
struct Polling(usize);

impl Drop for Polling {
    fn drop(&mut self) {
        POLLED.set(self.0);
    }
}

/// Why a run is parked whose context was moved out of its function.
const OUTSIDE: &str = "RunCtx was used outside of its workflow function: its operations are awaited there, and \
     not in a task that the function spawns";

impl Activation {
    pub(crate) fn new(
        tidelock: &Tidelock,
        task: &LeasedTask,
        summarized: Summarized,
        mut replay: Replay,
        metadata: Metadata,
    ) -> Arc<Self> {
        replay.start();
        let (wakers, staged, compensations) = (BTreeMap::new(), HashMap::new(), Vec::new());
        Arc::new(Self {
            tidelock: tidelock.clone(),
            task: task.clone(),
            summarized,
            summary_changed: AtomicBool::new(false),
            metadata,
            granted: (task.granted_at(), Instant::now()),
            function: OnceLock::new(),
            shared: Mutex::new(Shared { replay, wakers, staged, compensations }),
        })
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.summarized.run
    }

    /// Says that the function is about to change the summary.
    pub(crate) fn summary_changes(&self) {
        self.summary_changed.store(true, Ordering::Release);
    }

    /// The summary as it is in the store, as far as this turn can have changed it.
    pub(crate) async fn current_summary(&self) -> Result<Summarized> {
        let there = match self.summary_changed.load(Ordering::Acquire) {
            true => Summarized::read(&**self.store(), self.run()).await?,
            false => None,
        };
        Ok(there.unwrap_or_else(|| self.summarized.clone()))
    }

    pub(crate) fn generation(&self) -> u32 {
        self.summarized.summary.generation
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.task.store()
    }

    /// The store's time: never ahead of it, and behind it by at most the latency of the lease's
    /// reply.
    pub(crate) fn now(&self) -> Timestamp {
        self.granted.0.plus(self.granted.1.elapsed())
    }

    /// Applies a verb of the replay, and wakes the operations that it concerns.
    pub(crate) fn replay<T>(&self, verb: impl FnOnce(&mut Replay) -> T) -> T {
        let mut shared = self.shared();
        let answer = verb(&mut shared.replay);
        shared.wake();
        answer
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the content of the next commit, if a write is wanted.
    pub(crate) fn next_batch(&self) -> Option<Outgoing> {
        let mut shared = self.shared();
        let batch = shared.replay.next_batch()?;
        let landing = batch.landing.as_ref().map(|landing| landing.op);
        let writes = landing.and_then(|op| shared.staged.remove(&op));
        shared.wake();
        Some(Outgoing { batch, writes })
    }

    /// Registers the compensation of a completed step.
    pub(crate) fn push_compensation(&self, compensation: Compensation) {
        self.shared().compensations.push(compensation);
    }

    /// Takes the latest step that can be compensated.
    pub(crate) fn pop_compensation(&self) -> Option<Compensation> {
        let mut shared = self.shared();
        let latest = shared.compensations.pop()?;
        shared.replay.compensate();
        Some(latest)
    }

    /// Polls the function. Operations of the run can be polled meanwhile, on this thread.
    pub(crate) fn poll_function<T>(&self, waker: &Waker, poll: impl FnOnce() -> T) -> T {
        self.function.get_or_init(|| waker.clone());
        let _polling = Polling(POLLED.replace(self.address()));
        poll()
    }

    /// Whether the function is being polled on this thread. Otherwise an operation was moved out of
    /// it: its order among the others is not deterministic, so the turn ends and the run is parked.
    pub(crate) fn is_inside(&self) -> bool {
        let is_inside = POLLED.get() == self.address();
        if !is_inside {
            self.replay(|replay| replay.leave(Exit::Park(OUTSIDE.into())));
            self.function.get().into_iter().for_each(Waker::wake_by_ref);
        }
        is_inside
    }

    /// Completes if the function is being polled on this thread.
    pub(crate) async fn inside(&self) {
        if !self.is_inside() {
            std::future::pending::<()>().await;
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Shared {
    /// Wakes the operations that the last verb concerns.
    fn wake(&mut self) {
        match self.replay.take_wake() {
            Wake::None => {}
            Wake::One(op) => self.wakers.remove(&op).into_iter().for_each(Waker::wake),
            Wake::All => std::mem::take(&mut self.wakers).into_values().for_each(Waker::wake),
        }
    }

    fn wait_at(&mut self, op: OpId, waker: &Waker) {
        match self.wakers.get_mut(&op) {
            Some(there) => there.clone_from(waker),
            None => drop(self.wakers.insert(op, waker.clone())),
        }
    }
}
