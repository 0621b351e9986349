//! Queue handlers: the meaning of a queue's items, which the worker does not know.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{Result, Settle};

use super::LeasedTask;
use super::poller::{fail_as_panicked, panic_message};

/// The work on one leased item. The worker polls it.
pub type TaskFuture = BoxFuture<'static, Result<TaskOutcome>>;

/// Processes the items of a queue.
pub trait QueueHandler: Send + Sync + 'static {
    /// Starts the work on items that were leased together.
    ///
    /// Returns one future per task, in order. Each does the work and settles the lease.
    ///
    /// An error means that the item could not be settled: the worker defers it, or blocks it if a
    /// retry cannot help. The worker catches a panic and counts it as a failure of that item alone.
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture>;
}

/// Starts each task separately, for handlers that do not process tasks together.
pub fn each<F>(tasks: Vec<LeasedTask>, work: impl Fn(LeasedTask) -> F) -> Vec<TaskFuture>
where
    F: Future<Output = Result<TaskOutcome>> + Send + 'static,
{
    let begin = |task: LeasedTask| match catch_unwind(AssertUnwindSafe(|| work(task.clone()))) {
        Ok(work) => work.boxed(),
        Err(panic) => fail_as_panicked(task, panic_message(&*panic)).boxed(),
    };
    tasks.into_iter().map(begin).collect()
}

/// How a lease was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// The work is done.
    Acked,
    /// It failed and will be retried.
    Retried(String),
    /// It failed and is blocked until an operator unblocks it.
    Blocked(String),
    /// It was deferred.
    Deferred,
    /// It was released.
    Released,
    /// The lease expired or was revoked: nothing was written.
    Lost,
}

impl TaskOutcome {
    /// Returns the outcome of a committed settlement.
    pub fn by(exit: &Settle) -> Self {
        match exit {
            Settle::Ack { .. } => Self::Acked,
            Settle::Retry { error, .. } => Self::Retried(error.clone()),
            Settle::Defer { .. } => Self::Deferred,
            Settle::Block { error } => Self::Blocked(error.clone()),
            Settle::Release => Self::Released,
        }
    }

    /// Returns the name used in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acked => "acked",
            Self::Retried(_) => "retried",
            Self::Blocked(_) => "blocked",
            Self::Deferred => "deferred",
            Self::Released => "released",
            Self::Lost => "lost",
        }
    }

    /// Returns the error, if it failed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Retried(error) | Self::Blocked(error) => Some(error),
            _ => None,
        }
    }
}
