//! Dry run: the function of a workflow against an exported history, without effects.
//!
//! The history is written to a new store in memory, and one turn is driven on it by a worker that
//! is shutting down: what is recorded is replayed, and no effect begins.

use std::sync::Arc;

use tidelock_store::{
    Append, Commit, EventType, ExpectedVersion, LeaseRequest, ManualClock, MemoryStore, NewEvent,
    Result, Store, StoreError, StoreExt, Timestamp, Wake, When, WorkerName, limits,
};
use tokio_util::sync::CancellationToken;

use super::activation::Activation;
use super::client::{ExportedEntry, RunExport};
use super::driver::Driver;
use super::history::{self, ChildStarted, Entry, RunOutcome};
use super::replay::{Exit, Mismatch, Replay};
use super::summary::{RunState, Summarized, Summary};
use super::work::RunWork;
use super::{Definition, RunId, keys};
use crate::handle::Tidelock;
use crate::worker::{LeasedTask, TaskOutcome};

/// What came of a dry run.
#[derive(Debug)]
pub(crate) struct DryRun {
    /// How the run ended according to its history.
    pub(crate) recorded: Option<RunOutcome>,
    pub(crate) end: DryEnd,
}

/// How the function went on after its history, or why it did not.
#[derive(Debug)]
pub(crate) enum DryEnd {
    /// It ended.
    Ended(RunOutcome),
    /// It would begin this effect.
    Begins(String),
    /// It waits for a time, a signal or a child.
    Waits,
    /// It would continue as new.
    ContinuesAsNew,
    /// It does not fit.
    Misfit(Mismatch),
    /// It was parked for another reason.
    Parked(String),
}

/// Replays the history against the function.
///
/// # Errors
/// If the history cannot be stored or read: it is not one.
pub(crate) async fn dry_run(workflow: Definition, export: &RunExport) -> Result<DryRun> {
    let store = store_of(export).await?;
    let (tidelock, workflow) = (Tidelock::over(store.clone()), Arc::new(workflow));
    let task = task(&tidelock, &workflow, export).await?;
    let slot = store.get_one(&keys::summary(&export.run)).await?;
    let there = Summarized::of(&export.run, &slot)?.ok_or_else(no_start)?;
    let mut loaded = history::load(&*store, &export.run, None).await?;
    let recorded = loaded.replay.reopen();
    let (Some(version), Some(input)) = (loaded.version, loaded.replay.input().cloned()) else {
        return Err(no_start());
    };
    let activation = Activation::new(&tidelock, &task, there, loaded.replay, loaded.metadata);
    let driver = Driver::new(activation.clone(), version, workflow.settings.stall);
    let outcome = driver.drive(&*workflow.code, input).await?;
    let added = history::events(&*store, &export.run, Some(version.plus(1))).await?;
    let end = activation.replay(|replay| misfit(replay));
    let end = match end {
        Some(end) => end,
        None => end_of(&activation, &added, outcome)?,
    };
    Ok(DryRun { recorded, end })
}

fn misfit(replay: &Replay) -> Option<DryEnd> {
    match (replay.mismatch(), replay.exit()) {
        (Some(mismatch), _) => Some(DryEnd::Misfit(mismatch.clone())),
        (None, Some(Exit::Continue(_))) => Some(DryEnd::ContinuesAsNew),
        (None, Some(Exit::Park(error))) => Some(DryEnd::Parked(error.clone())),
        (None, _) => None,
    }
}

fn end_of(
    activation: &Activation,
    added: &[tidelock_store::StoredEvent],
    outcome: TaskOutcome,
) -> Result<DryEnd> {
    for event in added {
        if let Some(outcome) = Entry::decode(event)?.outcome() {
            return Ok(DryEnd::Ended(outcome));
        }
    }
    Ok(match (activation.replay(|replay| replay.refused_effect()), outcome) {
        (_, TaskOutcome::Retried(error) | TaskOutcome::Blocked(error)) => DryEnd::Parked(error),
        (Some(effect), TaskOutcome::Released) => DryEnd::Begins(effect),
        _ => DryEnd::Waits,
    })
}

fn no_start() -> StoreError {
    StoreError::invalid("an exported run: it has no start")
}

/// A store that contains the run, its children as open, and nothing else; its time is that of the
/// last entry.
async fn store_of(export: &RunExport) -> Result<Arc<dyn Store>> {
    let last = export.entries.last().ok_or_else(no_start)?.recorded_at;
    let clock = Arc::new(ManualClock::at(last));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock));
    let events = export.entries.iter().map(event).collect::<Result<Vec<_>>>()?;
    for events in events.chunks(limits::EVENTS_PER_COMMIT) {
        let stream = keys::stream(&export.run);
        let append = Append::new(&stream, ExpectedVersion::Any, events.to_vec());
        write(&*store, Commit::new().with_append(append)).await?;
    }
    for entry in &export.entries {
        if let Entry::ChildStarted(ChildStarted { run, .. }) = Entry::decode_exported(entry)? {
            write(&*store, run_commit(&run, export, last)?).await?;
        }
    }
    let wake = Wake::at(keys::item(&export.workflow, export.version, &export.run), When::NOW);
    write(&*store, run_commit(&export.run, export, export.started_at)?.wake(wake)).await?;
    Ok(store)
}

fn event(entry: &ExportedEntry) -> Result<NewEvent> {
    let event_type = EventType::new(keys::entry_type(&entry.kind))?;
    let event = NewEvent::new(event_type, entry.data.clone()).with_id(entry.id);
    Ok(event.with_metadata(entry.metadata.clone()))
}

/// The records of an open run. What replay does not read is left out.
fn run_commit(run: &RunId, export: &RunExport, started_at: Timestamp) -> Result<Commit> {
    let summary = Summary {
        workflow: export.workflow.clone(),
        version: export.version,
        state: RunState::Open,
        started_at,
        ended_at: None,
        deadline: None,
        parent: None,
        attributes: Default::default(),
        retention: None,
        input_digest: String::new(),
        generation: export.generation,
        begins: None,
    };
    Ok(summary.first_writes(run)?.into_iter().fold(Commit::new(), Commit::write))
}

async fn write(store: &dyn Store, commit: Commit) -> Result<()> {
    let refused = |_| StoreError::invalid("an exported run: two of its entries are the same");
    store.commit(commit).await?.committed().map(drop).map_err(refused)
}

/// The lease of the run, for a worker that is shutting down.
async fn task(
    tidelock: &Tidelock,
    workflow: &Arc<Definition>,
    export: &RunExport,
) -> Result<LeasedTask> {
    let options = RunWork::served(tidelock, workflow);
    let worker = WorkerName::new("dry-run")?;
    let queue = keys::queue(&export.workflow, export.version);
    let request = LeaseRequest::new(&queue, &worker, workflow.settings.lease, 1);
    let lease = tidelock.store().lease(request).await?.leases.pop().ok_or_else(no_start)?;
    let stopping = CancellationToken::new();
    stopping.cancel();
    Ok(LeasedTask::new(tidelock.store(), lease, &options, &stopping, None))
}
