//! Verbs on a run: resume, terminate, retry, and an operator's verdict.
//!
//! Termination and retry are each one commit. The run's driver writes with an expected version of
//! the history, so its later writes are refused.

use tidelock_store::{
    Adjustment, Commit, EventId, ExpectedVersion, ItemFilter, ItemRef, NamePattern, RawJson,
    Result as StoreResult, Store, Wake, When,
};

use super::info::load_summary;
use super::proposal::Proposal;
use super::signal::SignalRequest;
use super::status;
use crate::handle::Tidelock;
use crate::runs::history::{Entry, Resolution, Retried, RunOutcome, Terminated};
use crate::runs::names::StepName;
use crate::runs::summary::{RunState, Summarized, Summary};
use crate::runs::{PendingWait, RunError, RunId, RunStatus, Verdict, history, keys};

/// Resumes a parked run, and reads its status.
pub(super) async fn resume(tidelock: &Tidelock, run: &RunId) -> Result<RunStatus, RunError> {
    let (there, store) = (load_summary(tidelock, run).await?, &**tidelock.store());
    let found = status::of(store, &there).await?;
    if !matches!(found, RunStatus::Parked { .. }) {
        return Ok(found);
    }
    release(store, &there.item()).await?;
    Ok(status::of(store, &there).await?)
}

/// Clears the item's hold and block. Neither affects a current lease, so no conflict is possible.
async fn release(store: &dyn Store, item: &ItemRef) -> StoreResult<()> {
    let filter =
        ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str())).held(false);
    store.adjust(filter.clone().blocked(true), Adjustment::Unblock).await?;
    store.adjust(filter, Adjustment::Defer { until: When::NOW }).await?;
    Ok(())
}

/// Ends a run from outside, at once.
pub(super) async fn terminate(
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

/// The children that a run has started in its generation and that are open, or were terminated.
///
/// Once a run has ended it starts no more: a child is started in a commit with an entry of its
/// history, and its driver's later entries are refused.
pub(super) async fn children(
    tidelock: &Tidelock,
    run: &RunId,
) -> Result<Vec<Summarized>, RunError> {
    let (there, store) = (load_summary(tidelock, run).await?, &**tidelock.store());
    let mut started = Vec::new();
    history::each(store, &there, |_, entry| {
        if let Entry::ChildStarted(child) = entry {
            started.push(child.run);
        }
    })
    .await?;
    let mut children = Vec::new();
    for child in started {
        let child = Summarized::read(store, &child).await?;
        children.extend(child.filter(|child| {
            let parent = child.summary.parent.as_ref().is_some_and(|parent| parent.run == *run);
            parent && matches!(child.summary.state, RunState::Open | RunState::Terminated)
        }));
    }
    Ok(children)
}

/// Lets the item of a run that was terminated while it was parked be leased, so that it leaves. If
/// that fails the run has ended all the same.
pub(super) async fn release_ended(tidelock: &Tidelock, run: &RunId) {
    let release = async {
        let there = load_summary(tidelock, run).await?;
        match there.summary.state.is_ended() {
            true => Ok(release(&**tidelock.store(), &there.item()).await?),
            false => Ok::<_, RunError>(()),
        }
    };
    if let Err(error) = release.await {
        tracing::warn!(%run, %error, "the item of a terminated run could not be released");
    }
}

/// Reopens a failed run at the step that failed.
pub(super) async fn retry(
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

/// Records an operator's verdict on a step whose outcome is unknown.
pub(super) async fn resolve(
    tidelock: &Tidelock,
    run: &RunId,
    step: &str,
    verdict: Verdict,
    operation: Option<&str>,
) -> Result<(), RunError> {
    let (there, name) = (load_summary(tidelock, run).await?, StepName::new(step)?);
    let asked = PendingWait::Verdict { step: name.clone() };
    let pending = status::pending_waits(&**tidelock.store(), &there).await?;
    let payload = RawJson::new(&Resolution { step: name, verdict })?;
    let request =
        SignalRequest::reserved(there.run.clone(), keys::RESOLVE, payload, "waits for no verdict");
    let request = request.once(operation);
    if there.summary.state.is_ended() || pending.contains(&asked) {
        return request.send(tidelock).await;
    }
    match operation.is_some() && request.is_there(tidelock, &there).await? {
        true => Ok(()),
        false => Err(RunError::NotAwaitingVerdict { run: there.run, step: step.to_owned() }),
    }
}
