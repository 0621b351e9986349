//! Retention: the removal of ended runs.
//!
//! The end of a run creates a work item that is due when its retention is over. A worker then
//! deletes the run's history, summary and index entries in one commit. The id is then free for
//! another run. The store forgets the emptied stream and the items later.

use tidelock_store::{
    AfterTrim, Append, Commit, CommitOutcome, ExpectedVersion, Result, Settlement, StoreError,
    StoreExt, Wake, When, limits,
};

use super::summary::Summarized;
use super::{RunId, keys};
use crate::worker::{LeasedTask, QueueHandler, TaskFuture, TaskOutcome, each, is_loss};

/// The queue handler that removes runs past their retention.
#[derive(Debug)]
pub(crate) struct Removing;

impl QueueHandler for Removing {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        each(tasks, remove)
    }
}

/// Decides on the current state of the run, and again after a conflict, for example with a retry.
async fn remove(task: LeasedTask) -> Result<TaskOutcome> {
    loop {
        let finished =
            Settlement::finish(task.token(), task.lease().mark, When::In(limits::ITEM_MEMORY));
        let commit = decide(&task).await?.settle(finished);
        match task.commit(commit).await? {
            CommitOutcome::Committed(_) => return Ok(TaskOutcome::Acked),
            CommitOutcome::Conflict(conflict) if is_loss(&conflict) => {
                return Ok(TaskOutcome::Lost);
            }
            CommitOutcome::Conflict(_) => {}
        }
    }
}

/// Nothing, if the run is gone, was reopened, or is kept indefinitely.
async fn decide(task: &LeasedTask) -> Result<Commit> {
    let (store, key) = (task.store(), &task.lease().item.key);
    let run = RunId::new(key.as_str()).map_err(|e| StoreError::invalid(e.to_string()))?;
    let there = Summarized::of(&run, &store.get_one(&keys::summary(&run)).await?)?;
    let removed_at = there.as_ref().and_then(|there| there.summary.removed_at());
    let (Some(there), Some(at)) = (there, removed_at) else { return Ok(Commit::new()) };
    if at > store.now().await? {
        return Ok(Commit::new().wake(Wake::at(keys::removal(&run), When::At(at))));
    }
    let state = store.head(&keys::stream(&run)).await?.state;
    let commit = there.removal_writes()?.into_iter().fold(Commit::new(), Commit::write);
    Ok(match state.version() {
        None => commit,
        Some(version) => commit
            .with_append(Append::closing(&keys::stream(&run), ExpectedVersion::Exact(version)))
            .trim(&keys::stream(&run), version, AfterTrim::Forget(When::In(limits::ITEM_MEMORY))),
    })
}
