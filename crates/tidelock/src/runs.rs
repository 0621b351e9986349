//! Runs: durable workflows written as plain async functions.
//!
//! A run is an event history in its own stream, and the function that is replayed against it: a
//! recorded step is not executed again. The worker that leases the run's work item drives it. Every
//! write carries the lease's fence and the expected version of the history, so a worker that lost
//! its lease writes nothing.
//!
//! Runs add nothing to the store's contract: a run is a stream, a few records and a work item.

mod activation;
mod active;
mod app;
mod ctx;
mod definition;
mod driver;
mod error;
pub(crate) mod history;
pub(crate) mod keys;
mod names;
pub(crate) mod registered;
mod replay;
pub(crate) mod start_commit;
pub(crate) mod summary;
mod tx_runs;
pub(crate) mod work;
mod workflow;

pub(crate) mod client;
pub(crate) mod dry_run;
mod retention;
mod schedules;

use std::sync::Arc;

use tidelock_store::{ItemRef, StoredEvent, StreamName};

use crate::handle::Tidelock;
use crate::worker::QueueOptions;

pub(crate) use active::Active;
pub use client::{
    BulkRuns, ExportedEntry, HistoryEntry, PendingWait, RefusedRun, RunAction, RunBatch, RunCursor,
    RunError, RunExport, RunFilter, RunHandle, RunInfo, RunResult, RunStatus, Runs, SendSignal,
    StartOutcome, StartRun, Timeline,
};
pub use ctx::{
    ChildRun, OnUnknownOutcome, RaceWinner, RunCtx, Step, StepKey, TransactStep, WaitForSignal,
    WaitForSignalWithin,
};
pub(crate) use definition::Definition;
pub use error::StepError;
pub use history::{RunFailure, RunOutcome, Verdict};
pub use names::{
    InvalidName, RunId, ScheduleName, SignalName, StepName, WorkflowName, WorkflowVersion,
};
pub use schedules::{CatchUp, Overlap, Schedule, ScheduleError, ScheduleInfo, Schedules};
pub use summary::{Parent, RunState};
pub use workflow::{IntoWorkflow, Workflow, WorkflowOptions, WorkflowRef};

/// After this many consecutive parkings without progress, a run counts as stuck.
pub(crate) const LASTING: u32 = 3;

/// Returns the run that a work item drives; `None` if it is another kind of item.
pub fn run_of(item: &ItemRef) -> Option<RunId> {
    keys::workflow_of(&item.queue)?;
    RunId::new(item.key.as_str()).ok()
}

/// Returns the run whose history is in a stream; `None` if it is another kind of stream.
pub fn run_of_stream(stream: &StreamName) -> Option<RunId> {
    keys::run_of_stream(stream)
}

/// Returns the run whose history begins with this event.
pub fn run_started_by(event: &StoredEvent) -> Option<RunId> {
    run_of_stream(&event.stream).filter(|_| event.event_type.as_str() == keys::STARTED)
}

/// The queues that every process with workflows serves: schedules, and runs past their retention.
/// Their items are never blocked for crashes of earlier holders.
pub(crate) fn housekeeping(tidelock: &Tidelock) -> [QueueOptions; 2] {
    let schedules =
        QueueOptions::new(&keys::schedules(), Arc::new(schedules::Firing::new(tidelock.clone())));
    let removals = QueueOptions::new(&keys::removals(), Arc::new(retention::Removing));
    [schedules.max_crashes(u32::MAX), removals.max_crashes(u32::MAX)]
}
