//! Run handle: one run, known by its id, in this process or another, started or not.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{EventId, RawJson, StoreError, Version};

use super::commit_target::CommitTarget;
use super::info::load_summary;
use super::proposal::carry_out;
use super::signal::SignalRequest;
use super::{export, status, timeline, verbs};
use crate::handle::Tidelock;
use crate::runs::history::{self, Entry};
use crate::runs::{
    InvalidName, RunError, RunExport, RunId, RunInfo, RunResult, RunState, RunStatus, SendSignal,
    Timeline, Verdict, keys,
};

/// A handle of one run, whose result is an `O`. Clones refer to the same run.
pub struct RunHandle<O = RawJson> {
    tidelock: Tidelock,
    id: Result<RunId, InvalidName>,
    operation: Option<String>,
    result: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for RunHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<O> Clone for RunHandle<O> {
    fn clone(&self) -> Self {
        self.typed()
    }
}

impl<O> RunHandle<O> {
    pub(super) fn new(tidelock: Tidelock, id: Result<RunId, InvalidName>) -> Self {
        Self { tidelock, id, operation: None, result: PhantomData }
    }

    /// Returns a handle of the same run whose result is decoded as a `T`. The handle of a run that
    /// was started or found by a name gives [`RawJson`].
    #[must_use]
    pub fn typed<T>(&self) -> RunHandle<T> {
        let (tidelock, id) = (self.tidelock.clone(), self.id.clone());
        RunHandle { tidelock, id, operation: self.operation.clone(), result: PhantomData }
    }

    /// Sets an idempotency key for one request.
    ///
    /// A request that is repeated under this id, because the reply was lost, gets the reply of the
    /// first one: the run is not signalled, cancelled, terminated, retried or resolved a second
    /// time. Like the id of a signal, it belongs to one request to one run, and is known as long as
    /// the run's history.
    #[must_use]
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        self
    }

    /// Returns the run's id.
    ///
    /// # Errors
    /// Returns an error if the id is not valid.
    pub fn id(&self) -> Result<&RunId, RunError> {
        self.id.as_ref().map_err(|e| e.clone().into())
    }

    /// Returns the run's workflow, state, times and attributes.
    ///
    /// # Errors
    /// [`NoRun`](RunError::NoRun) or [`Removed`](RunError::Removed), or the store's error.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let run = tidelock.start("checkout", "order-7", &3).version(1).await?;
    /// let info = run.get().await?;
    /// assert_eq!(info.workflow.as_str(), "checkout");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<RunInfo, RunError> {
        Ok(RunInfo::of(load_summary(&self.tidelock, self.id()?).await?))
    }

    /// Returns the run's status: its driver, what it waits for, why it is parked, or how it ended.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::runs::RunStatus;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let run = tidelock.start("checkout", "order-7", &3).version(1).await?;
    /// assert!(matches!(run.status().await?, RunStatus::Due { .. })); // no worker has leased it yet
    /// # Ok(())
    /// # }
    /// ```
    pub async fn status(&self) -> Result<RunStatus, RunError> {
        let there = load_summary(&self.tidelock, self.id()?).await?;
        Ok(status::of(&**self.tidelock.store(), &there).await?)
    }

    /// Returns a page of the run's history after this version: steps, waits, attempts, signals, its
    /// end.
    ///
    /// # Errors
    /// As [`get`](Self::get), and `LimitExceeded` if `limit` exceeds a page.
    pub async fn timeline(
        &self,
        after: Option<Version>,
        limit: usize,
    ) -> Result<Timeline, RunError> {
        let there = load_summary(&self.tidelock, self.id()?).await?;
        Ok(timeline::page(&**self.tidelock.store(), &there.run, after, limit).await?)
    }

    /// Returns the recorded history of the run's generation, to [replay](crate::testing::replay) it
    /// against changed code.
    ///
    /// It contains the run's data: its input, results and signals.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn export(&self) -> Result<RunExport, RunError> {
        let there = load_summary(&self.tidelock, self.id()?).await?;
        Ok(export::of(&**self.tidelock.store(), &there).await?)
    }

    /// Returns the newest value that the run has [published](crate::runs::RunCtx::publish), if any.
    ///
    /// # Errors
    /// As [`get`](Self::get), and an error if the value is not a `T`.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let run = tidelock.start("checkout", "order-7", &3).version(1).await?;
    /// let status: Option<String> = run.published().await?;
    /// assert_eq!(status, None); // it has not begun
    /// # Ok(())
    /// # }
    /// ```
    pub async fn published<T: DeserializeOwned>(&self) -> Result<Option<T>, RunError> {
        let there = load_summary(&self.tidelock, self.id()?).await?;
        let status = |entry| match entry {
            Entry::Published(published) => Some(published.status),
            _ => None,
        };
        let status = history::newest(&**self.tidelock.store(), &there, status).await?;
        let about = |e: StoreError| e.about(format_args!("status of run {:?}", there.run.as_str()));
        Ok(status.map(|status| status.to()).transpose().map_err(about)?)
    }

    /// Waits for the run's result. See [`RunResult`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use tidelock::prelude::*;
    /// use tidelock::runs::RunError;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let run = tidelock.start("checkout", "checkout-7", &3).version(1).await?;
    /// // No worker drives it in this example, so the wait times out. The run stays as it is.
    /// let result = run.result().within(Duration::from_millis(1)).await;
    /// assert!(matches!(result, Err(RunError::StillOpen { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn result(&self) -> RunResult<O>
    where
        O: DeserializeOwned,
    {
        RunResult::new(self.tidelock.clone(), self.id.clone())
    }

    /// Sends a signal to the run. See [`SendSignal`].
    ///
    /// A run that is not started yet receives it after its start.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// // Under an id: sent again after a lost reply, it is received once.
    /// tidelock.runs().run("checkout-7").signal("approved", "by Ada").id("approval-1").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn signal(&self, name: impl AsRef<str>, payload: &(impl Serialize + ?Sized)) -> SendSignal {
        let name = name.as_ref();
        let request = self.id().and_then(|run| SignalRequest::new(run.clone(), name, payload));
        let request = request.map(|request| request.once(self.asked_as()));
        SendSignal::new(CommitTarget::Store(self.tidelock.clone()), request)
    }

    /// Returns the id of the event that a signal with this id is stored as. A store reports it when
    /// another signal was sent under the id before.
    ///
    /// # Errors
    /// `Invalid` if the run's id is not valid.
    pub fn signal_event(&self, id: impl AsRef<str>) -> Result<EventId, RunError> {
        Ok(keys::signal_event(self.id()?, id.as_ref()))
    }

    /// Resumes a parked or blocked run at once, and returns its status.
    ///
    /// A run that is driven, sleeps, waits or has ended is left as it is. A worker drives the
    /// resumed run like every other, so this never drives a run twice.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn resume(&self) -> Result<RunStatus, RunError> {
        verbs::resume(&self.tidelock, self.id()?).await
    }

    /// Requests cancellation.
    ///
    /// Sleeps and waits of the run end, steps that have not started are not started, its children
    /// are cancelled too, and its clean-up runs; [`result`](Self::result) returns when that is
    /// done. The run may still complete, if it was faster.
    ///
    /// # Errors
    /// [`Ended`](RunError::Ended) if it has ended, and as [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let run = tidelock.start("checkout", "order-7", &3).version(1).await?;
    /// run.cancel("the customer called").await?; // its clean-up still runs
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel(&self, reason: &str) -> Result<(), RunError> {
        let (run, reason) = (self.id()?.clone(), RawJson::new(reason)?);
        let request = SignalRequest::reserved(run, keys::CANCEL, reason, "cannot be cancelled");
        request.once(self.asked_as()).send(&self.tidelock).await
    }

    /// Terminates the run at once, without clean-up.
    ///
    /// Later writes of its driver are refused. Its children are left alone;
    /// [`terminate_with_children`](Self::terminate_with_children) ends them, too.
    ///
    /// # Errors
    /// [`Ended`](RunError::Ended) if it has ended, and as [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let run = tidelock.start("checkout", "order-7", &3).version(1).await?;
    /// run.terminate("it was a test").await?; // at once, without clean-up
    /// assert!(run.result().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn terminate(&self, reason: &str) -> Result<(), RunError> {
        self.terminate_one(self.id()?, reason).await
    }

    /// Terminates the run at once, and then its children, and theirs. Returns how many descendants
    /// were terminated.
    ///
    /// Each is terminated by a commit of its own, parents first, so none starts another one
    /// meanwhile. If the call is interrupted, call it again: it continues with the children of the
    /// terminated run. Children that the run has started before it continued as new are left alone,
    /// and so are those of a child that has ended otherwise.
    ///
    /// # Errors
    /// [`Ended`](RunError::Ended) if it has ended and was not terminated, and as
    /// [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let run = tidelock.start("checkout", "order-7", &3).version(1).await?;
    /// let children = run.terminate_with_children("it was a test").await?;
    /// assert_eq!(children, 0, "it had none");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn terminate_with_children(&self, reason: &str) -> Result<u64, RunError> {
        let run = self.id()?;
        if self.get().await?.state != RunState::Terminated {
            self.terminate_one(run, reason).await?;
        }
        let (mut parents, mut terminated) = (vec![run.clone()], 0);
        while let Some(parent) = parents.pop() {
            for child in verbs::children(&self.tidelock, &parent).await? {
                if child.summary.state == RunState::Open {
                    match self.terminate_one(&child.run, reason).await {
                        Ok(()) => terminated += 1,
                        // It was faster.
                        Err(RunError::Ended { .. }) => continue,
                        Err(error) => return Err(error),
                    }
                }
                parents.push(child.run);
            }
        }
        Ok(terminated)
    }

    async fn terminate_one(&self, run: &RunId, reason: &str) -> Result<(), RunError> {
        carry_out(&self.tidelock, RunError::contended(run), || {
            verbs::terminate(&self.tidelock, run, reason, self.asked_as())
        })
        .await?;
        verbs::release_ended(&self.tidelock, run).await;
        Ok(())
    }

    /// Retries a failed run from the step that failed: completed steps are not executed again.
    ///
    /// # Errors
    /// [`NotFailed`](RunError::NotFailed) if it has not failed,
    /// [`Compensated`](RunError::Compensated) if its steps were compensated,
    /// [`OutOfTime`](RunError::OutOfTime) if its deadline has passed, and as [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// use tidelock::runs::RunError;
    ///
    /// let run = tidelock.start("checkout", "order-7", &3).version(1).await?;
    /// let refused = run.retry("the bank is back").await;
    /// assert!(matches!(refused, Err(RunError::NotFailed { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry(&self, reason: &str) -> Result<(), RunError> {
        let run = self.id()?;
        carry_out(&self.tidelock, RunError::contended(run), || {
            verbs::retry(&self.tidelock, run, reason, self.asked_as())
        })
        .await
    }

    /// Records the verdict on an at-most-once step whose outcome is unknown.
    ///
    /// # Errors
    /// [`NotAwaitingVerdict`](RunError::NotAwaitingVerdict) if the step does not wait for a verdict,
    /// [`Ended`](RunError::Ended) if the run has ended, and as [`get`](Self::get).
    pub async fn resolve(&self, step: impl AsRef<str>, verdict: Verdict) -> Result<(), RunError> {
        let (run, step) = (self.id()?, step.as_ref());
        verbs::resolve(&self.tidelock, run, step, verdict, self.asked_as()).await
    }

    fn asked_as(&self) -> Option<&str> {
        self.operation.as_deref()
    }
}
