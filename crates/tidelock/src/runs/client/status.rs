//! Run status: its driver, what it waits for, why it is parked, or how it ended.
//!
//! It is derived from the run's work item, and from its history if no worker drives it. Reading it
//! changes nothing.

use std::fmt;

use serde::Serialize;
use tidelock_store::{Item, Result, Store, StoreExt, StoredEvent, Timestamp, WorkerName};

use crate::runs::history::{Entry, RunOutcome};
use crate::runs::names::StepName;
use crate::runs::summary::Summarized;
use crate::runs::{LASTING, RunId, history};

/// The status of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// A worker drives it.
    Running {
        /// The worker.
        worker: WorkerName,
        /// Since when.
        since: Timestamp,
        /// When the lease expires, unless it is renewed, as it is while the worker lives.
        until: Timestamp,
    },
    /// It is due, and waits for a worker that has registered its workflow's version.
    Due {
        /// Since when.
        since: Timestamp,
    },
    /// It waits for one of these.
    Waiting {
        /// The pending waits.
        on: Vec<PendingWait>,
        /// When it continues without an event, if it does.
        until: Option<Timestamp>,
    },
    /// It could not be driven, and is neither failed nor lost. It is retried later, or at once by
    /// [`resume`](super::RunHandle::resume).
    Parked {
        /// The error.
        error: String,
        /// When it is retried; `None` if it needs an operator.
        again_at: Option<Timestamp>,
    },
    /// It has ended.
    Ended(RunOutcome),
}

/// A pending wait of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingWait {
    /// A sleep.
    Time {
        /// The name of the sleep.
        name: StepName,
        /// When it ends.
        until: Timestamp,
    },
    /// A signal.
    Signal {
        /// The name of the wait.
        name: StepName,
        /// The signal.
        signal: String,
        /// The timeout, if any.
        until: Option<Timestamp>,
    },
    /// The end of a child.
    Child {
        /// The child's name in its parent.
        name: StepName,
        /// The child's id.
        run: RunId,
    },
    /// The next attempt at a step.
    Attempt {
        /// The step.
        step: StepName,
        /// The number of failed attempts.
        failed: u32,
        /// The last error.
        error: String,
        /// The time of the next attempt.
        again_at: Timestamp,
    },
    /// An operator's verdict on a step: see [`resolve`](super::RunHandle::resolve).
    Verdict {
        /// The step.
        step: StepName,
    },
}

/// A sentence about the run, for people.
impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { worker, .. } => write!(f, "worker {worker:?} drives it"),
            Self::Due { .. } => {
                f.write_str("it waits for a worker that has its workflow's version registered")
            }
            Self::Waiting { on, .. } if on.is_empty() => f.write_str("it waits"),
            Self::Waiting { on, .. } => {
                let on: Vec<String> = on.iter().map(PendingWait::to_string).collect();
                write!(f, "it waits for {}", on.join(", or for "))
            }
            Self::Parked { error, .. } => write!(f, "it is parked: {error}"),
            Self::Ended(_) => f.write_str("it has ended"),
        }
    }
}

/// What the run waits for, for people.
impl fmt::Display for PendingWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { name, until } => write!(f, "{until} ({:?})", name.as_str()),
            Self::Signal { signal, .. } => write!(f, "signal {signal:?}"),
            Self::Child { run, .. } => write!(f, "the end of run {:?}", run.as_str()),
            Self::Attempt { step, failed, error, .. } => {
                write!(f, "attempt {} at step {:?}: {error}", failed + 1, step.as_str())
            }
            Self::Verdict { step } => write!(f, "a verdict on step {:?}", step.as_str()),
        }
    }
}

/// Why this open run needs an operator to continue; `None` if it does not.
pub(super) async fn lastingly_parked(
    store: &dyn Store,
    run: &Summarized,
) -> Result<Option<String>> {
    let item = store.item(&run.item()).await?;
    let lasts = |item: &Item| item.blocked || (item.failures >= LASTING && item.holder.is_none());
    Ok(item
        .filter(lasts)
        .map(|item| item.error.unwrap_or_else(|| "no error was recorded".to_owned())))
}

/// The status of this run.
pub(super) async fn of(store: &dyn Store, run: &Summarized) -> Result<RunStatus> {
    if run.summary.state.is_ended()
        && let Some(outcome) = history::outcome(store, run).await?
    {
        return Ok(RunStatus::Ended(outcome));
    }
    let (item, now) = (store.item(&run.item()).await?, store.now().await?);
    match item.as_ref().and_then(|item| of_item(item, now)) {
        Some(status) => Ok(status),
        None => {
            let until = item.and_then(|item| item.due);
            Ok(RunStatus::Waiting { on: pending_waits(store, run).await?, until })
        }
    }
}

/// The status according to the item; `None` if nothing is due now.
fn of_item(item: &Item, now: Timestamp) -> Option<RunStatus> {
    if let Some(holder) = item.holder.as_ref().filter(|holder| holder.deadline > now) {
        let (worker, since, until) = (holder.worker.clone(), holder.since, holder.deadline);
        return Some(RunStatus::Running { worker, since, until });
    }
    let hold = item.hold.filter(|hold| *hold > now);
    if item.blocked || hold.is_some() {
        let error = item.error.clone().unwrap_or_else(|| "it was deferred".to_owned());
        return Some(RunStatus::Parked { error, again_at: hold.filter(|_| !item.blocked) });
    }
    let since = item.ready_at()?;
    (since <= now).then_some(RunStatus::Due { since })
}

/// The pending waits according to the history.
pub(super) async fn pending_waits(store: &dyn Store, run: &Summarized) -> Result<Vec<PendingWait>> {
    let mut pending_waits = Vec::new();
    history::each(store, run, |_: &StoredEvent, entry| apply(&mut pending_waits, entry)).await?;
    Ok(pending_waits)
}

fn apply(pending_waits: &mut Vec<PendingWait>, entry: Entry) {
    match entry {
        Entry::Timer(entry) => {
            pending_waits.push(PendingWait::Time { name: entry.name, until: entry.until });
        }
        Entry::Waiting(entry) => {
            pending_waits.push(PendingWait::Signal {
                name: entry.name,
                signal: entry.signal,
                until: entry.until,
            });
        }
        Entry::ChildStarted(entry) => {
            pending_waits.push(PendingWait::Child { name: entry.name, run: entry.run });
        }
        Entry::UnknownOutcome(entry) => {
            pending_waits.push(PendingWait::Verdict { step: entry.name });
        }
        Entry::AttemptFailed(entry) => {
            forget(pending_waits, &entry.name);
            let (step, failed, error) = (entry.name, entry.attempt, entry.error);
            pending_waits.push(PendingWait::Attempt {
                step,
                failed,
                error,
                again_at: entry.again_at,
            });
        }
        other => {
            if let Some(name) = other.answered() {
                forget(pending_waits, name);
            }
        }
    }
}

fn forget(pending_waits: &mut Vec<PendingWait>, name: &StepName) {
    pending_waits.retain(|waiting| waiting.name() != name);
}

impl PendingWait {
    fn name(&self) -> &StepName {
        match self {
            Self::Time { name, .. } | Self::Signal { name, .. } | Self::Child { name, .. } => name,
            Self::Attempt { step, .. } | Self::Verdict { step } => step,
        }
    }
}
