//! Where a run stands, for whoever asks: who drives it, what it waits for, why it is parked, how it
//! ended.
//!
//! It is told from the run's work item, and from its history if nobody is at it. Nothing is taken
//! or changed by asking.

use std::fmt;

use serde::Serialize;
use tidelock_store::{Item, Result, Store, StoreExt, StoredEvent, Timestamp, WorkerName};

use crate::runs::history::{Entry, RunOutcome};
use crate::runs::names::StepName;
use crate::runs::summary::Summarized;
use crate::runs::{LASTING, RunId, history};

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// Somebody drives it.
    Running {
        /// Who.
        worker: WorkerName,
        /// Since when.
        since: Timestamp,
        /// Until when, unless the lease is renewed, as it is while the worker lives.
        until: Timestamp,
    },
    /// It has something to do, and waits for a worker that has its workflow's version registered.
    Due {
        /// Since when.
        since: Timestamp,
    },
    /// It waits for one of these.
    Waiting {
        /// For what.
        on: Vec<PendingWait>,
        /// When it goes on by itself, if it does.
        until: Option<Timestamp>,
    },
    /// It could not be driven, and is neither failed nor lost: it is tried again then, or at once
    /// by [`resume`](super::RunHandle::resume).
    Parked {
        /// What was wrong.
        error: String,
        /// When it is tried again; not by itself, if this is not said.
        again_at: Option<Timestamp>,
    },
    /// It has ended.
    Ended(RunOutcome),
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingWait {
    /// A time.
    Time {
        /// What the run calls its sleep.
        name: StepName,
        /// Which.
        until: Timestamp,
    },
    /// A signal.
    Signal {
        /// What the run calls its wait.
        name: StepName,
        /// Which signal.
        signal: String,
        /// Until when.
        until: Option<Timestamp>,
    },
    /// The end of a child.
    Child {
        /// What the run calls it.
        name: StepName,
        /// Which run it is.
        run: RunId,
    },
    /// Another attempt at a step.
    Attempt {
        /// Which step.
        step: StepName,
        /// How many attempts have failed.
        failed: u32,
        /// What the last one said.
        error: String,
        /// When the next one is made.
        again_at: Timestamp,
    },
    /// An operator who says what became of a step: see [`resolve`](super::RunHandle::resolve).
    Verdict {
        /// Which step.
        step: StepName,
    },
}

/// For people, as a sentence about the run.
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

/// For people, as what a run waits for.
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

/// Why this run, which has not ended, will not go on by itself; nothing if it may.
pub(super) async fn lastingly_parked(
    store: &dyn Store,
    run: &Summarized,
) -> Result<Option<String>> {
    let item = store.item(&run.item()).await?;
    let lasts = |item: &Item| item.blocked || (item.failures >= LASTING && item.holder.is_none());
    Ok(item.filter(lasts).map(|item| item.error.unwrap_or_else(|| "no error was kept".to_owned())))
}

/// Where this run stands.
pub(super) async fn of(store: &dyn Store, run: &Summarized) -> Result<RunStatus> {
    if run.summary.state.is_ended()
        && let Some(outcome) = history::outcome(store, run).await?
    {
        return Ok(RunStatus::Ended(outcome));
    }
    let (item, now) = (store.item(&run.item()).await?, store.now().await?);
    match item.as_ref().and_then(|item| of_item(item, now)) {
        Some(standing) => Ok(standing),
        None => {
            let until = item.and_then(|item| item.due);
            Ok(RunStatus::Waiting { on: awaited(store, run).await?, until })
        }
    }
}

/// What the item says; nothing if it says that there is nothing to do now.
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

/// What the run has asked for and not got yet.
pub(super) async fn awaited(store: &dyn Store, run: &Summarized) -> Result<Vec<PendingWait>> {
    let mut awaited = Vec::new();
    history::each(store, run, |_: &StoredEvent, entry| see(&mut awaited, entry)).await?;
    Ok(awaited)
}

fn see(awaited: &mut Vec<PendingWait>, entry: Entry) {
    match entry {
        Entry::Timer(entry) => {
            awaited.push(PendingWait::Time { name: entry.name, until: entry.until });
        }
        Entry::Waiting(entry) => {
            awaited.push(PendingWait::Signal {
                name: entry.name,
                signal: entry.signal,
                until: entry.until,
            });
        }
        Entry::ChildStarted(entry) => {
            awaited.push(PendingWait::Child { name: entry.name, run: entry.run });
        }
        Entry::Ambiguous(entry) => awaited.push(PendingWait::Verdict { step: entry.name }),
        Entry::AttemptFailed(entry) => {
            forget(awaited, &entry.name);
            let (step, failed, error) = (entry.name, entry.attempt, entry.error);
            awaited.push(PendingWait::Attempt { step, failed, error, again_at: entry.again_at });
        }
        other => {
            if let Some(name) = other.answered() {
                forget(awaited, name);
            }
        }
    }
}

fn forget(awaited: &mut Vec<PendingWait>, name: &StepName) {
    awaited.retain(|waiting| waiting.name() != name);
}

impl PendingWait {
    fn name(&self) -> &StepName {
        match self {
            Self::Time { name, .. } | Self::Signal { name, .. } | Self::Child { name, .. } => name,
            Self::Attempt { step, .. } | Self::Verdict { step } => step,
        }
    }
}
