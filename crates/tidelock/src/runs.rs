//! Runs: durable workflows as plain async functions.
//!
//! A run is a history of what happened in it, kept in a stream of its own, and the function that is
//! replayed against it: a step that is recorded is not done again. Whoever holds the lease of the
//! run's work item drives it; every write carries the lease's fence and the version of the history
//! that it was decided on, so a worker that lost its lease writes nothing.
//!
//! Nothing here enters the store's contract: a run is a stream, a few records and a work item.

mod activation;
mod active;
mod app;
mod ctx;
mod driver;
pub(crate) mod driving;
mod error;
pub(crate) mod history;
pub(crate) mod keys;
mod names;
pub(crate) mod registered;
mod replay;
pub(crate) mod start_commit;
pub(crate) mod summary;
mod tx_runs;
mod workflow;

pub(crate) mod client;
mod retention;
mod schedules;

use std::sync::Arc;

use tidelock_store::{ItemRef, StoredEvent, StreamName};

use crate::handle::Tidelock;
use crate::worker::QueueOptions;

pub(crate) use active::Active;
pub use client::{
    HistoryEntry, PendingWait, RunCursor, RunError, RunFilter, RunHandle, RunInfo, RunPage,
    RunResult, RunStatus, Runs, SendSignal, StartOutcome, StartRun, Timeline,
};
pub use ctx::{
    ChildRun, OnUnknownOutcome, RaceWinner, Retry, RunCtx, Step, StepKey, TransactStep,
    WaitForSignal,
};
pub use error::StepError;
pub use history::{RunFailure, RunOutcome, Verdict};
pub use names::{
    InvalidName, RunId, ScheduleName, SignalName, StepName, WorkflowName, WorkflowVersion,
};
pub use schedules::{CatchUp, Overlap, Schedule, ScheduleError, ScheduleInfo, Schedules};
pub use summary::{Parent, RunState};
pub use workflow::{Workflow, WorkflowFn};

/// A run that was parked this often in a row, with no progress between, does not go on by itself.
pub(crate) const LASTING: u32 = 3;

/// The run that a work item stands for the right to drive; nothing, if it stands for something
/// else.
pub fn run_of(item: &ItemRef) -> Option<RunId> {
    keys::workflow_of(&item.queue)?;
    RunId::new(item.key.as_str()).ok()
}

/// The run whose history a stream is; nothing, if it is the stream of something else.
pub fn run_of_stream(stream: &StreamName) -> Option<RunId> {
    keys::run_of_stream(stream)
}

/// The run whose history begins with this event.
pub fn run_started_by(event: &StoredEvent) -> Option<RunId> {
    run_of_stream(&event.stream).filter(|_| event.event_type.as_str() == keys::STARTED)
}

/// The queues that every process serves which drives runs: schedules, and runs that are kept no
/// longer. That a holder died over one of their items says nothing about the next.
pub(crate) fn housekeeping(tidelock: &Tidelock) -> [QueueOptions; 2] {
    let schedules =
        QueueOptions::new(&keys::schedules(), Arc::new(schedules::Firing::new(tidelock.clone())));
    let removals = QueueOptions::new(&keys::removals(), Arc::new(retention::Removing));
    [schedules.max_crashes(u32::MAX), removals.max_crashes(u32::MAX)]
}
