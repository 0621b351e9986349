//! The removal of runs that have ended and are kept no longer.
//!
//! The end of a run puts an item into a queue, due when its retention is over; whoever serves that
//! queue takes the run's history, its summary and everything that it is found by away, in one
//! commit. The id is then free for another run. The store forgets the emptied stream and the items
//! a while later.

use tidelock_store::{
    AfterTrim, Append, Commit, CommitOutcome, ExpectedVersion, Result, Settlement, StoreError,
    StoreExt, Wake, When, limits,
};

use super::summary::Summarized;
use super::{RunId, keys};
use crate::worker::{LeasedTask, QueueHandler, TaskFuture, TaskOutcome, each, is_loss};

/// Removes runs whose retention is over.
#[derive(Debug)]
pub(crate) struct Removing;

impl QueueHandler for Removing {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        each(tasks, remove)
    }
}

/// Decides on the run as it is, and again if somebody changed it meanwhile: a retry, say.
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

/// Nothing, if the run is gone, goes on, or is kept for ever after all.
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
