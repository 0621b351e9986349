//! Activation: one turn of a run on one worker, shared by the workflow function and its driver.
//!
//! The function is replayed against its history. Replay preserves the recorded order: the result of
//! an operation is delivered only after everything known before it has been requested again and
//! delivered. So steps that are awaited together are replayed as they first ran, whatever the code
//! does with them. An operation that is not recorded starts only after the replay. If nothing
//! progresses before the replay is over, the code is non-deterministic: it does not fit its
//! history.
//!
//! The function's side never waits for the store: it queues entries, and the driver writes them.

mod op;
mod queue;
mod replay_cursor;
mod transitions;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use tidelock_store::{RawJson, Store, Timestamp};
use tokio::time::Instant;

use super::history::{Entry, RunOutcome};
use super::replay::{Cancel, ReplayState};
use super::summary::Summarized;
use super::{RunId, StepName};
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::worker::LeasedTask;

pub(crate) use op::{Op, Woken};
pub(crate) use queue::{Batch, Landing, LandingEnd, Queue};
pub(crate) use replay_cursor::ReplayCursor;
pub(crate) use transitions::used_twice;

/// The state shared by the function and the driver.
#[derive(Debug)]
pub(crate) struct Activation {
    pub(crate) tidelock: Tidelock,
    pub(crate) task: LeasedTask,
    pub(crate) summarized: Summarized,
    /// Metadata of the events that the run causes.
    pub(crate) metadata: Metadata,
    /// The store's time when the lease was granted, and the local time of that moment.
    granted: (Timestamp, Instant),
    /// Wakes the function.
    function: OnceLock<Waker>,
    state: Mutex<State>,
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

/// How the function ended without returning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It does not fit its history, or cannot continue here: parked until the code changes.
    Park(String),
    /// It can never continue.
    Fail(String),
    /// It starts over with this input.
    Continue(RawJson),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) past: ReplayState,
    pub(crate) cursor: ReplayCursor,
    pub(crate) queue: Queue,
    /// Effects in flight.
    pub(crate) active: usize,
    /// Operations that wait for a time, a signal or a child.
    pub(crate) outstanding: HashMap<usize, Option<Timestamp>>,
    /// Awaited children, and the outcomes of those that have ended.
    pub(crate) children: HashMap<usize, (RunId, Option<RunOutcome>)>,
    /// Races of this turn.
    pub(crate) races: HashSet<StepName>,
    /// Wakers of waiting operations.
    wakers: HashMap<usize, Waker>,
    /// The first operation that is not recorded and was requested during the replay.
    pub(crate) held: Option<String>,
    /// An operation would start, but the worker is shutting down.
    pub(crate) stopped: bool,
    pub(crate) exit: Option<Exit>,
    /// The driver is dropping the function.
    closing: bool,
    /// Steps that can be compensated, in the order of their completion.
    pub(crate) compensations: Vec<super::ctx::Compensation>,
    /// Whether steps were compensated.
    pub(crate) compensated: bool,
    /// Whether the function has observed the cancellation.
    pub(crate) cancel_seen: bool,
}

impl Activation {
    pub(crate) fn new(
        tidelock: &Tidelock,
        task: &LeasedTask,
        summarized: Summarized,
        past: ReplayState,
        metadata: Metadata,
    ) -> Arc<Self> {
        let state = State {
            cursor: ReplayCursor::of(&past),
            past,
            queue: Queue::default(),
            active: 0,
            outstanding: HashMap::new(),
            children: HashMap::new(),
            races: HashSet::new(),
            wakers: HashMap::new(),
            held: None,
            stopped: false,
            exit: None,
            closing: false,
            compensations: Vec::new(),
            compensated: false,
            cancel_seen: false,
        };
        Arc::new(Self {
            tidelock: tidelock.clone(),
            task: task.clone(),
            summarized,
            metadata,
            granted: (task.granted_at(), Instant::now()),
            function: OnceLock::new(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.summarized.run
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

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.state().leave(Exit::Park(OUTSIDE.into()));
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

    /// From now on, dropped operations are dropped by the driver, which is not recorded.
    pub(crate) fn close(&self) {
        self.state().closing = true;
    }
}

impl State {
    /// Keeps the first reason.
    pub(crate) fn leave(&mut self, exit: Exit) {
        self.exit.get_or_insert(exit);
    }

    pub(crate) fn cancel(&self) -> Option<&Cancel> {
        self.past.cancel.as_ref()
    }

    /// Applies an entry that another process wrote.
    pub(crate) fn absorb(&mut self, entry: Entry) -> tidelock_store::Result<()> {
        self.past.take(entry)?;
        self.wake_all();
        Ok(())
    }

    pub(crate) fn wait_at(&mut self, at: usize, waker: &Waker) {
        match self.wakers.get_mut(&at) {
            Some(there) => there.clone_from(waker),
            None => drop(self.wakers.insert(at, waker.clone())),
        }
    }

    pub(crate) fn wake(&mut self, at: usize) {
        if let Some(waker) = self.wakers.remove(&at) {
            waker.wake();
        }
    }

    pub(crate) fn wake_all(&mut self) {
        self.wakers.drain().for_each(|(_, waker)| waker.wake());
    }

    /// Advances the replay past everything that was requested and delivered, and wakes the next
    /// operation.
    pub(crate) fn advance(&mut self) {
        let was_replay = self.cursor.is_replay();
        if let Some(next) = self.cursor.advance(&self.past) {
            self.wake(next);
        }
        if was_replay && !self.cursor.is_replay() {
            self.wake_all();
        }
    }

    /// An operation that was dropped in an earlier turn and is awaited in this one.
    pub(crate) fn awaited_after_drop(&self) -> Option<String> {
        let live = self.cursor.live.iter().zip(&self.past.records);
        let mut dropped =
            live.filter(|(live, record)| live.requested && !live.abandoned && record.dropped);
        dropped.next().map(|(_, record)| {
            format!(
                "non-determinism: the code does not fit the history: {} {:?} was dropped before, and is awaited now",
                record.kind,
                record.name.as_str()
            )
        })
    }

    /// The step whose failure is the last recorded result, if any.
    pub(crate) fn last_failed(&self) -> Option<StepName> {
        let mark = self.past.order.iter().rev().find(|mark| mark.is_end)?;
        let record = &self.past.records[mark.record];
        matches!(record.end, Some(super::replay::End::Failed(_))).then(|| record.name.clone())
    }

    /// The earliest time at which an operation continues.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.outstanding.values().flatten().min().copied()
    }

    /// Whether no effect is in flight and no write is pending.
    pub(crate) fn is_quiet(&self) -> bool {
        self.active == 0 && !self.queue.is_wanted()
    }

    /// Describes the non-determinism: the next recorded operation, and the requested one.
    pub(crate) fn non_determinism(&self) -> String {
        let expected = self
            .cursor
            .next(&self.past)
            .map(|record| format!("{} {:?}", record.kind, record.name.as_str()));
        let expected = expected.unwrap_or_else(|| "nothing more".into());
        let found = self.held.clone().unwrap_or_else(|| "no operation that can continue".into());
        format!(
            "non-determinism: the code does not fit the history: expected {expected} (recorded), found {found}; register the old code under the \
             run's version, or branch with ctx.patched, and the run continues"
        )
    }
}
