//! Retries a failed run from the step that failed.

use tidelock_store::{Commit, EventId, ExpectedVersion, Wake, When};

use super::info::load_summary;
use super::proposal::Proposal;
use crate::handle::Tidelock;
use crate::runs::history::{Entry, Retried, RunOutcome};
use crate::runs::summary::{RunState, Summarized, Summary};
use crate::runs::{RunError, RunId, history, keys};

pub(super) async fn propose(
    tidelock: &Tidelock,
    run: &RunId,
    reason: &str,
    operation: Option<&str>,
) -> Result<Proposal<()>, RunError> {
    let there = load_summary(tidelock, run).await?;
    let asked = operation.map(|operation| keys::operation_event(run, operation));
    // It may have failed again since; that needs a new retry.
    if history::has(&**tidelock.store(), &there, asked).await? {
        return Ok(Proposal::Answer(()));
    }
    if there.summary.state != RunState::Failed {
        return Err(RunError::NotFailed { run: there.run, state: there.summary.state });
    }
    if let Some(RunOutcome::Failed(failure)) = history::outcome(&**tidelock.store(), &there).await?
    {
        match (failure.compensated, failure.timed_out) {
            (true, _) => return Err(RunError::Compensated { run: there.run }),
            (false, true) => return Err(RunError::OutOfTime { run: there.run }),
            (false, false) => {}
        }
    }
    Ok(Proposal::commit(reopen(&there, reason, asked)?, ()))
}

fn reopen(there: &Summarized, reason: &str, asked: Option<EventId>) -> Result<Commit, RunError> {
    let entry = Entry::Retried(Retried { reason: reason.to_owned() }).encode()?;
    let id = asked.unwrap_or(entry.id);
    let commit = Commit::new()
        // Repeated after a lost reply, it is the same retry.
        .with_retry_id()
        .append(&keys::stream(&there.run), ExpectedVersion::Any, [entry.with_id(id)])
        .wake(Wake::at(there.item(), When::NOW));
    let open = Summary { state: RunState::Open, ended_at: None, ..there.summary.clone() };
    Ok(there.update_writes(&open)?.into_iter().fold(commit, Commit::write))
}
