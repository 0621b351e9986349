//! What a queue's items mean, to a worker that does not know.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{Result, Settle};

use super::LeasedTask;
use super::poller::{fail_as_panicked, panic_message};

/// The work on one leased item, to be driven by the worker.
pub type TaskFuture = BoxFuture<'static, Result<TaskOutcome>>;

/// The work that the items of a queue stand for.
pub trait QueueHandler: Send + Sync + 'static {
    /// Begins the work on items that were leased together; gives a future for each, in their order,
    /// which does the work and settles the lease.
    ///
    /// An error means that the item could not be settled: the worker puts it off, or blocks it if
    /// trying again cannot help. So does a panic, which the worker catches and counts as a failure
    /// of that item alone.
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture>;
}

/// Begins each task by itself, for work that gains nothing from seeing them together.
pub fn each<F>(tasks: Vec<LeasedTask>, work: impl Fn(LeasedTask) -> F) -> Vec<TaskFuture>
where
    F: Future<Output = Result<TaskOutcome>> + Send + 'static,
{
    let begin = |task: LeasedTask| match catch_unwind(AssertUnwindSafe(|| work(task.clone()))) {
        Ok(handling) => handling.boxed(),
        Err(panic) => fail_as_panicked(task, panic_message(&*panic)).boxed(),
    };
    tasks.into_iter().map(begin).collect()
}

/// What became of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// The work is done.
    Acked,
    /// It failed and will be tried again.
    Retried(String),
    /// It failed and will not be tried until somebody unblocks it.
    Blocked(String),
    /// It was put off.
    Deferred,
    /// It was given back.
    Released,
    /// Somebody else has the item, or the lease was revoked: nothing was written.
    Lost,
}

impl TaskOutcome {
    /// What this exit means, once it is written.
    pub fn by(exit: &Settle) -> Self {
        match exit {
            Settle::Ack { .. } => Self::Acked,
            Settle::Retry { error, .. } => Self::Retried(error.clone()),
            Settle::Defer { .. } => Self::Deferred,
            Settle::Block { error } => Self::Blocked(error.clone()),
            Settle::Release => Self::Released,
        }
    }

    /// The breadcrumb for it.
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

    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Retried(error) | Self::Blocked(error) => Some(error),
            _ => None,
        }
    }
}
