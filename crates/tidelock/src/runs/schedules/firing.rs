//! The queue handler of schedules: starts the runs and enqueues the jobs that are due, and advances
//! the schedule.

use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, ItemRef, QueueName, RawJson, RecordWrite,
    Result as StoreResult, Settlement, StoreExt, Timestamp, Wake, When, limits,
};

use super::schedule::Plan;
use super::stored::{Kept, Stored};
use super::{Overlap, ScheduleError};
use crate::handle::Tidelock;
use crate::jobs::EnqueueRequest;
use crate::queues::keys::data;
use crate::runs::client::proposal::Proposal;
use crate::runs::client::start::StartRequest;
use crate::runs::names::ScheduleName;
use crate::runs::summary::Summarized;
use crate::runs::{RunError, RunId, RunState, keys};
use crate::telemetry;
use crate::worker::{LeasedTask, QueueHandler, TaskFuture, TaskOutcome, each, is_loss};

/// The retry delay of a schedule that could not start its run, for example because its workflow is
/// not registered.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The attribute that marks a schedule's runs.
const ATTRIBUTE: &str = "schedule";

/// Starts the runs of due schedules.
#[derive(Debug)]
pub(crate) struct Firing {
    tidelock: Tidelock,
}

impl Firing {
    pub(crate) fn new(tidelock: Tidelock) -> Self {
        Self { tidelock }
    }
}

impl QueueHandler for Firing {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        each(tasks, |task| fire(self.tidelock.clone(), task))
    }
}

/// Decides on the current state of the schedule, and again after a conflict.
async fn fire(tidelock: Tidelock, task: LeasedTask) -> StoreResult<TaskOutcome> {
    loop {
        let due;
        let commit = match decide(&tidelock, &task).await {
            // The commit does not wake the item of a schedule that was deleted or has no next
            // occurrence, so the item ends.
            Ok(Due { commit, started }) => {
                due = started;
                commit.settle(Settlement::finish(
                    task.token(),
                    task.lease().mark,
                    When::In(limits::ITEM_MEMORY),
                ))
            }
            Err(error) => return task.settle(put_off(&task, &error)).await,
        };
        match task.commit(commit).await? {
            CommitOutcome::Committed(committed) => {
                for (schedule, moment) in due {
                    telemetry::scheduled(&schedule, committed.at.since(moment));
                }
                return Ok(TaskOutcome::Acked);
            }
            CommitOutcome::Conflict(conflict) if is_loss(&conflict) => {
                return Ok(TaskOutcome::Lost);
            }
            CommitOutcome::Conflict(_) => {}
        }
    }
}

fn put_off(task: &LeasedTask, error: &RunError) -> Settlement {
    Settlement::retry(task.token(), RETRY_DELAY, error.to_string())
}

/// What is due now: the commit, and the occurrences whose runs it starts.
#[derive(Debug, Default)]
struct Due {
    commit: Commit,
    started: Vec<(ScheduleName, Timestamp)>,
}

impl From<Commit> for Due {
    fn from(commit: Commit) -> Self {
        Self { commit, started: Vec::new() }
    }
}

/// The commit of what is due now; empty if the schedule is gone, paused or not due yet.
async fn decide(tidelock: &Tidelock, task: &LeasedTask) -> Result<Due, RunError> {
    let name = ScheduleName::new(task.lease().item.key.as_str())?;
    let store = tidelock.store();
    let Some(kept) = Kept::of(&store.get_one(&keys::schedule(&name)).await?)? else {
        return Ok(Due::default());
    };
    match (kept.stored.next, store.now().await?) {
        _ if kept.stored.paused => Ok(Due::default()),
        (None, _) => Ok(Due::default()),
        (Some(next), now) if next > now => Ok(wake(&name, Commit::new(), Some(next)).into()),
        (Some(next), now) => start(tidelock, &name, &kept, next, now).await,
    }
}

async fn start(
    tidelock: &Tidelock,
    name: &ScheduleName,
    kept: &Kept,
    next: Timestamp,
    now: Timestamp,
) -> Result<Due, RunError> {
    let Stored { plan, last, .. } = &kept.stored;
    let table = plan.timetable().map_err(|error| unreadable(&error))?;
    let mut chosen = plan.catch_up.choose(&table, next, now);
    if plan.overlap == Overlap::Skip {
        let busy = is_open(tidelock, plan.queue.as_ref(), last.as_ref()).await?;
        chosen = chosen.pop().filter(|_| !busy).into_iter().collect();
    }
    let mut moved = Stored { next: table.after(now), ..kept.stored.clone() };
    let (mut commit, mut started) = (Commit::new(), Vec::new());
    for moment in chosen {
        let run = keys::scheduled_run(name, moment);
        let parts = begin(tidelock, name, &kept.stored, run.clone()).await?;
        if parts.parts() > 0 {
            started.push((name.clone(), moment));
        }
        add(&mut commit, parts);
        moved.last = Some(run);
    }
    let expected = ExpectedRevision::Revision(kept.revision);
    let commit =
        commit.write(RecordWrite::put(&keys::schedule(name), expected, RawJson::new(&moved)?));
    Ok(Due { commit: wake(name, commit, moved.next), started })
}

/// The commit that starts the run of this id, or enqueues the job under this key. If it is taken,
/// the occurrence counts as processed.
pub(super) async fn begin(
    tidelock: &Tidelock,
    name: &ScheduleName,
    stored: &Stored,
    run: RunId,
) -> Result<Commit, RunError> {
    let input = stored.plan.input.clone();
    let workflow = match &stored.plan {
        Plan { queue: Some(queue), .. } => {
            let request = EnqueueRequest::scheduled(queue.clone(), run.as_str(), input);
            return Ok(request.propose(&**tidelock.store()).await?.commit);
        }
        Plan { workflow: Some(workflow), .. } => workflow.clone(),
        Plan { workflow: None, .. } => return Ok(Commit::new()),
    };
    let mut request = StartRequest::of(workflow, run, input);
    request.attributes.insert(ATTRIBUTE.to_owned(), name.to_string());
    match request.propose(tidelock).await {
        Err(error @ RunError::OtherRun { .. }) => {
            tracing::warn!(%error, "a schedule could not start its run");
            Ok(Commit::new())
        }
        proposal => proposal.map(Proposal::into_parts),
    }
}

async fn is_open(
    tidelock: &Tidelock,
    queue: Option<&QueueName>,
    run: Option<&RunId>,
) -> Result<bool, RunError> {
    let Some(run) = run else { return Ok(false) };
    if let Some(queue) = queue {
        let job = ItemRef::parse(queue.as_str(), run.as_str())?;
        return Ok(tidelock.store().get_one(&data(&job)).await?.live().is_some());
    }
    let there = Summarized::of(run, &tidelock.store().get_one(&keys::summary(run)).await?)?;
    Ok(there.is_some_and(|there| there.summary.state == RunState::Open))
}

fn wake(name: &ScheduleName, commit: Commit, next: Option<Timestamp>) -> Commit {
    let wake = next.map(|next| Wake::at(keys::schedule_item(name), When::At(next)));
    wake.into_iter().fold(commit, Commit::wake)
}

pub(super) fn add(commit: &mut Commit, parts: Commit) {
    commit.appends.extend(parts.appends);
    commit.writes.extend(parts.writes);
    commit.wakes.extend(parts.wakes);
    commit.guards.extend(parts.guards);
}

/// It was valid when it was stored: this program has other time zone data.
fn unreadable(error: &ScheduleError) -> RunError {
    RunError::Store(tidelock_store::StoreError::invalid(error.to_string()))
}
