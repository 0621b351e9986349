//! What a queue's items mean, to a worker that does not know.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{Exit, Result};

use super::Task;
use super::server::{fail_as_panicked, panic_message};

/// The work on one leased item, to be driven by the worker.
pub type Handling = BoxFuture<'static, Result<Settled>>;

/// The work that the items of a queue stand for.
pub trait Work: Send + Sync + 'static {
    /// Begins the work on items that were leased together; gives a future for each, in their order,
    /// which does the work and settles the lease.
    ///
    /// An error means that the item could not be settled: the worker puts it off, or blocks it if
    /// trying again cannot help. So does a panic, which the worker catches and counts as a failure
    /// of that item alone.
    fn begin(&self, tasks: Vec<Task>) -> Vec<Handling>;
}

/// Begins each task by itself, for work that gains nothing from seeing them together.
pub fn each<F>(tasks: Vec<Task>, work: impl Fn(Task) -> F) -> Vec<Handling>
where
    F: Future<Output = Result<Settled>> + Send + 'static,
{
    let begin = |task: Task| match catch_unwind(AssertUnwindSafe(|| work(task.clone()))) {
        Ok(handling) => handling.boxed(),
        Err(panic) => fail_as_panicked(task, panic_message(&*panic)).boxed(),
    };
    tasks.into_iter().map(begin).collect()
}

/// What became of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
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

impl Settled {
    /// What this exit means, once it is written.
    pub fn by(exit: &Exit) -> Self {
        match exit {
            Exit::Ack { .. } => Self::Acked,
            Exit::Retry { error, .. } => Self::Retried(error.clone()),
            Exit::Defer { .. } => Self::Deferred,
            Exit::Block { error } => Self::Blocked(error.clone()),
            Exit::Release => Self::Released,
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
