//! The end of a run from outside: at once, and without being asked.
//!
//! The termination is an entry of the history and an end of the summary, in one commit. Whoever
//! drives the run writes with the version of the history that it knows, and so writes nothing more.

use tidelock_store::{Commit, ExpectedVersion, Wake, When};

use super::look::look;
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
    let there = look(tidelock, run).await?;
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
        // Sent again after a lost reply, it is this termination and not a second one.
        .with_retry_id()
        .append(&keys::stream(run), ExpectedVersion::Any, [entry.with_id(id)])
        // Whoever drives it is told by this, and refused in any case.
        .wake(Wake::at(there.item(), When::NOW));
    Ok(Proposal::commit(there.end(commit, RunState::Terminated, now)?, ()))
}
