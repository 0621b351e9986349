//! Termination: ends a run from outside, at once.
//!
//! One commit appends the termination to the history and ends the summary. The run's driver writes
//! with an expected version of the history, so its later writes are refused.

use tidelock_store::{Commit, ExpectedVersion, Wake, When};

use super::info::load_summary;
use super::proposal::Proposal;
use crate::handle::Tidelock;
use crate::runs::history::{Entry, Terminated};
use crate::runs::summary::RunState;
use crate::runs::{RunError, RunId, history, keys};

pub(super) async fn propose(
    tidelock: &Tidelock,
    run: &RunId,
    reason: &str,
    operation: Option<&str>,
) -> Result<Proposal<()>, RunError> {
    let there = load_summary(tidelock, run).await?;
    let asked = operation.map(|operation| keys::operation_event(run, operation));
    if there.summary.state.is_ended() {
        if history::has(&**tidelock.store(), &there, asked).await? {
            return Ok(Proposal::Answer(()));
        }
        let (run, state) = (there.run, there.summary.state);
        return Err(RunError::Ended { run, state, why: "cannot be terminated" });
    }
    let now = tidelock.store().now().await?;
    let entry = Entry::Terminated(Terminated { reason: reason.to_owned() }).encode()?;
    let id = asked.unwrap_or(entry.id);
    let commit = Commit::new()
        // Repeated after a lost reply, it is the same termination.
        .with_retry_id()
        .append(&keys::stream(run), ExpectedVersion::Any, [entry.with_id(id)])
        // Notifies the driver, whose writes are refused in any case.
        .wake(Wake::at(there.item(), When::NOW));
    Ok(Proposal::commit(there.end(commit, RunState::Terminated, now)?, ()))
}
