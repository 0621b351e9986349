//! One turn of a run in one worker's hands: what its function and its driver share.
//!
//! The function is replayed against its past. The order in which things were known is kept: the end
//! of an operation is handed to the function only when everything that was known before it has been
//! asked for again and handed over, so that steps awaited together are replayed as they first were,
//! whatever the code does with them. An operation that is not recorded begins only when the replay
//! is over. If nothing moves and the replay is not over, the code does not fit its history.
//!
//! The function's side never waits for the store: it puts entries in a queue, and the driver writes
//! them.

mod bookkeeping;
mod op;
mod queue;
mod replay_cursor;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

pub(crate) use bookkeeping::used_twice;
pub(crate) use op::{Op, Woken};
pub(crate) use queue::{Batch, Landing, LandingEnd, Queue};
pub(crate) use replay_cursor::ReplayCursor;

/// What the function and the driver share.
#[derive(Debug)]
pub(crate) struct Activation {
    pub(crate) tidelock: Tidelock,
    pub(crate) task: LeasedTask,
    pub(crate) summarized: Summarized,
    /// What events say that the run leads to.
    pub(crate) metadata: Metadata,
    /// The store's time when the lease was granted, and when that was.
    granted: (Timestamp, Instant),
    state: Mutex<State>,
}

/// How the function ended without returning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It does not fit its history, or cannot go on here: parked until the code does.
    Park(String),
    /// It can never go on.
    Fail(String),
    /// It begins again with this input.
    Continue(RawJson),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) past: ReplayState,
    pub(crate) order: ReplayCursor,
    pub(crate) queue: Queue,
    /// Effects that run at the moment.
    pub(crate) active: usize,
    /// Operations that wait for a time, a signal or a child.
    pub(crate) outstanding: HashMap<usize, Option<Timestamp>>,
    /// Children that are waited for, and those of them that have ended.
    pub(crate) children: HashMap<usize, (RunId, Option<RunOutcome>)>,
    /// Races of this turn.
    pub(crate) races: HashSet<StepName>,
    /// What waits, by operation.
    wakers: HashMap<usize, Waker>,
    /// The first operation that is not recorded and was asked for before the replay was over.
    pub(crate) held: Option<String>,
    /// Something would begin, but the worker is being shut down.
    pub(crate) stopped: bool,
    pub(crate) exit: Option<Exit>,
    /// The function is being dropped by the driver, and not by itself.
    closing: bool,
    /// Steps that can be undone, in the order in which they were done.
    pub(crate) undo: Vec<super::ctx::Undo>,
    /// Whether steps were undone.
    pub(crate) undone: bool,
    /// Whether the function has been told that it is to cancel.
    pub(crate) told: bool,
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
            order: ReplayCursor::of(&past),
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
            undo: Vec::new(),
            undone: false,
            told: false,
        };
        Arc::new(Self {
            tidelock: tidelock.clone(),
            task: task.clone(),
            summarized,
            metadata,
            granted: (task.granted_at(), Instant::now()),
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

    /// The store's time: never ahead of it, and behind it by no more than the way of the lease's
    /// answer.
    pub(crate) fn now(&self) -> Timestamp {
        self.granted.0.plus(self.granted.1.elapsed())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, whatever is let go of is let go of by the driver: that is not recorded.
    pub(crate) fn close(&self) {
        self.state().closing = true;
    }
}

impl State {
    /// The first reason counts.
    pub(crate) fn leave(&mut self, exit: Exit) {
        self.exit.get_or_insert(exit);
    }

    pub(crate) fn cancel(&self) -> Option<&Cancel> {
        self.past.cancel.as_ref()
    }

    /// Takes in what others wrote.
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

    /// Moves on as far as what was known has been asked for and handed over, and wakes whoever is
    /// next.
    pub(crate) fn nudge(&mut self) {
        let was_replay = self.order.is_replay();
        if let Some(next) = self.order.advance(&self.past) {
            self.wake(next);
        }
        if was_replay && !self.order.is_replay() {
            self.wake_all();
        }
    }

    /// Something that was let go of in an earlier turn is waited for in this one.
    pub(crate) fn waits_in_vain(&self) -> Option<String> {
        let live = self.order.live.iter().zip(&self.past.records);
        let mut dropped = live.filter(|(live, record)| live.asked && !live.gone && record.dropped);
        dropped.next().map(|(_, record)| {
            format!(
                "the code does not fit the history: {} {:?} was let go of before, and is waited for now",
                record.kind,
                record.name.as_str()
            )
        })
    }

    /// The step whose failure was the last thing that happened, if it was.
    pub(crate) fn last_failed(&self) -> Option<StepName> {
        let mark = self.past.order.iter().rev().find(|mark| mark.is_end)?;
        let record = &self.past.records[mark.record];
        matches!(record.end, Some(super::replay::End::Failed(_))).then(|| record.name.clone())
    }

    /// The earliest moment at which something is to go on by itself.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.outstanding.values().flatten().min().copied()
    }

    /// Whether nothing of the function's runs or waits for the store.
    pub(crate) fn is_quiet(&self) -> bool {
        self.active == 0 && !self.queue.is_wanted()
    }

    /// What the history has next, and what the function asked for instead.
    pub(crate) fn misfit(&self) -> String {
        let expected = self
            .order
            .next(&self.past)
            .map(|record| format!("{} {:?}", record.kind, record.name.as_str()));
        let expected = expected.unwrap_or_else(|| "nothing more".into());
        let found = self.held.clone().unwrap_or_else(|| "nothing that it could go on with".into());
        format!(
            "the code does not fit the history: expected {expected} (recorded), found {found}; register the old code under the \
             run's version, or tell the ways apart with ctx.patched, and the run goes on"
        )
    }
}
