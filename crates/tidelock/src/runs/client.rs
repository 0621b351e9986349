//! Run client: starts, awaits, signals, lists and operates runs.
//!
//! The client never drives a run; a worker of a process that registered its workflow does. Every
//! client call is a commit that a worker then finds, so no two callers, or a caller and a worker,
//! can drive a run twice.

mod bulk;
pub(crate) mod commit_target;
mod error;
mod export;
mod handle;
mod info;
pub(crate) mod listing;
pub(crate) mod proposal;
mod result;
pub(crate) mod signal;
pub(crate) mod start;
mod status;
mod timeline;
mod verbs;

use serde::Serialize;
use tidelock_store::{ItemFilter, RecordQuery, StoreExt};

use super::{RunId, Workflow, WorkflowName, WorkflowRef, keys};
use crate::handle::Tidelock;
use crate::list::List;
use crate::missing::{Missing, is_any, near};
use crate::pauses::{self, PauseSubject};
use commit_target::CommitTarget;
use start::StartRequest;

pub use bulk::{BulkRuns, RefusedRun, RunAction, RunBatch};
pub use error::RunError;
pub use export::{ExportedEntry, RunExport};
pub use handle::RunHandle;
pub use info::RunInfo;
pub use listing::{RunCursor, RunFilter};
pub use result::RunResult;
pub use signal::SendSignal;
pub use start::{StartOutcome, StartRun};
pub use status::{PendingWait, RunStatus};
pub use timeline::{HistoryEntry, Timeline};

/// The runs of a store, whichever process drives them.
#[derive(Debug, Clone)]
pub struct Runs {
    tidelock: Tidelock,
}

impl Tidelock {
    /// Starts a run of a workflow under an id of the caller's choice. See [`StartRun`].
    ///
    /// The workflow is a [`Workflow`], which takes its input type and gives a handle with its
    /// result type; or a name, which takes any input and gives a handle with a
    /// [`RawJson`](tidelock_store::RawJson) result.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    ///
    /// const GREET: Workflow<String, String> = Workflow::new("greet");
    ///
    /// async fn greet(ctx: RunCtx, name: String) -> Result<String, StepError> {
    ///     ctx.step("greet", |_key| async { Ok::<_, HandlerError>(format!("hello, {name}")) }).await
    /// }
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let app = tidelock.app().workflow(GREET, greet).build()?;
    /// let greeting = async { tidelock.start(GREET, "greet-1", "Ada").await?.result().await };
    /// let (stop, stopped) = tokio::sync::oneshot::channel();
    /// let caller = async {
    ///     let greeting = greeting.await;
    ///     let _ = stop.send(());
    ///     greeting
    /// };
    /// let (ended, greeting) = tokio::join!(app.run_until(async { let _ = stopped.await; }), caller);
    /// ended?;
    /// assert_eq!(greeting?, "hello, Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start<W, I>(&self, workflow: W, run: impl AsRef<str>, input: &I) -> StartRun<W::Output>
    where
        W: WorkflowRef<I>,
        I: Serialize + ?Sized,
    {
        StartRun::new(
            CommitTarget::Store(self.clone()),
            StartRequest::new(workflow.into_name(), run.as_ref(), input),
        )
    }

    /// Returns a handle of the run with this id, whether it exists or not, with the result type of
    /// the workflow. The run is found by its id; its workflow is not compared.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    ///
    /// const DELIVERY: Workflow<u32, String> = Workflow::new("delivery");
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// tidelock.start(DELIVERY, "order-7", &3).version(1).await?;
    /// let run = tidelock.run(DELIVERY, "order-7");
    /// run.signal("packed", "by Ada").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<I, O>(&self, _workflow: Workflow<I, O>, id: impl AsRef<str>) -> RunHandle<O> {
        RunHandle::new(self.clone(), RunId::new(id))
    }
}

impl Runs {
    pub(crate) fn new(tidelock: Tidelock) -> Self {
        Self { tidelock }
    }

    /// Returns a handle of the run with this id, whether it exists or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::runs::RunError;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let missing = tidelock.runs().run("checkout-7").get().await;
    /// assert!(matches!(missing, Err(RunError::NoRun { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, id: impl AsRef<str>) -> RunHandle {
        RunHandle::new(self.tidelock.clone(), RunId::new(id))
    }

    /// Lists the runs that match, newest first.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::runs::{RunFilter, RunState};
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let failed = RunFilter::all().workflow("checkout").state(RunState::Failed);
    /// for run in tidelock.runs().list(&failed).all().await? {
    ///     println!("{} failed at {:?}", run.run, run.ended_at);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, filter: &RunFilter) -> List<RunInfo, RunCursor> {
        let (store, filter) = (self.tidelock.store().clone(), filter.clone());
        List::new(move |after, limit| {
            let (store, filter) = (store.clone(), filter.clone());
            async move { Ok(listing::list(&*store, &filter, after, limit).await?) }
        })
    }

    /// Operates on the runs that match, a batch at a time, newest first. See [`BulkRuns`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::runs::RunFilter;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let tests = RunFilter::all().workflow("checkout").attribute("shop", "test");
    /// let bulk = tidelock.runs().bulk(&tests);
    /// let mut after = None;
    /// loop {
    ///     let done = bulk.clone().after(after).terminate("the test is over").await?;
    ///     println!("{} of {} are terminated", done.changed, done.matched);
    ///     after = match done.next {
    ///         Some(next) => Some(next),
    ///         None => break,
    ///     };
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk(&self, filter: &RunFilter) -> BulkRuns {
        BulkRuns::new(self.tidelock.clone(), filter.clone())
    }

    /// Pauses a workflow: no process drives a run of it, in any version, until it is
    /// [resumed](Self::resume). Runs can be started and signalled meanwhile, and those that are
    /// being driven are not interrupted.
    ///
    /// Every process honors it within two seconds. Returns whether the workflow was not paused
    /// before.
    ///
    /// # Errors
    /// Returns the store's error, or an error if the name is not valid.
    pub async fn pause(&self, workflow: impl AsRef<str>, reason: &str) -> Result<bool, RunError> {
        let subject = PauseSubject::Workflow(WorkflowName::new(workflow)?.as_str().to_owned());
        Ok(pauses::pause(&**self.tidelock.store(), subject, reason).await?)
    }

    /// Returns this workflow as missing if it was never registered and has no unfinished run.
    ///
    /// # Errors
    /// Returns the store's error, or an error if the name is not valid.
    pub async fn missing_workflow(
        &self,
        workflow: impl AsRef<str>,
    ) -> Result<Option<Missing>, RunError> {
        let (store, name) = (&**self.tidelock.store(), WorkflowName::new(workflow)?);
        let waiting = ItemFilter { queue: keys::queues(&name), ..ItemFilter::default() };
        let registered = store.get_one(&keys::workflow(&name)).await?;
        if registered.live().is_some() || is_any(store, &waiting).await? {
            return Ok(None);
        }
        let known = store.rows(RecordQuery::prefix(keys::WORKFLOWS)).all().await?;
        let known =
            known.iter().filter_map(|record| record.key.as_str().strip_prefix(keys::WORKFLOWS));
        let near = near(name.as_str(), known);
        Ok(Some(Missing::Workflow { name: name.as_str().to_owned(), near }))
    }

    /// Resumes a paused workflow, and returns whether it was paused.
    ///
    /// # Errors
    /// Returns the store's error, or an error if the name is not valid.
    pub async fn resume(&self, workflow: impl AsRef<str>) -> Result<bool, RunError> {
        let subject = PauseSubject::Workflow(WorkflowName::new(workflow)?.as_str().to_owned());
        Ok(pauses::resume(&**self.tidelock.store(), &subject).await?)
    }
}
