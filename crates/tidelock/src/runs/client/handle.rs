//! One run, for whoever knows its id: in this process or another, started or not.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{RawJson, StoreError, Version};

use super::commit_target::CommitTarget;
use super::look::look;
use super::proposal::carry_out;
use super::signal::SignalRequest;
use super::{resolve, resume, retry, status, terminate, timeline};
use crate::handle::Tidelock;
use crate::runs::history::{self, Entry};
use crate::runs::{
    InvalidName, RunError, RunId, RunInfo, RunResult, RunStatus, SendSignal, Timeline, Verdict,
    keys,
};

/// One run. Clones are handles on the same.
#[derive(Debug, Clone)]
pub struct RunHandle {
    tidelock: Tidelock,
    id: Result<RunId, InvalidName>,
    operation: Option<String>,
}

impl RunHandle {
    pub(super) fn new(tidelock: Tidelock, id: Result<RunId, InvalidName>) -> Self {
        Self { tidelock, id, operation: None }
    }

    /// The same, for one thing that is asked of it once: whoever asks for it again under this id,
    /// having heard no answer, is answered like the first time, and it is not signalled, cancelled,
    /// terminated, retried or told a verdict a second time. Like the id of a signal, it is of one
    /// request to one run; it is known for as long as the run's history.
    #[must_use]
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        self
    }

    /// Its id.
    ///
    /// # Errors
    /// If it cannot be one.
    pub fn id(&self) -> Result<&RunId, RunError> {
        self.id.as_ref().map_err(|e| e.clone().into())
    }

    /// What it is: workflow, state, times, attributes.
    ///
    /// # Errors
    /// [`NoRun`](RunError::NoRun) or [`Removed`](RunError::Removed), or what the store says.
    pub async fn get(&self) -> Result<RunInfo, RunError> {
        Ok(RunInfo::of(look(&self.tidelock, self.id()?).await?))
    }

    /// Where it stands: who drives it and until when, what it waits for, why it is parked, how it
    /// ended.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn standing(&self) -> Result<RunStatus, RunError> {
        let there = look(&self.tidelock, self.id()?).await?;
        Ok(status::of(&**self.tidelock.store(), &there).await?)
    }

    /// A page of what happened in it, after this version of its history, in order: steps, waits,
    /// attempts, signals, its end.
    ///
    /// # Errors
    /// As [`get`](Self::get), and `LimitExceeded` if more is asked for than a page has.
    pub async fn timeline(
        &self,
        after: Option<Version>,
        limit: usize,
    ) -> Result<Timeline, RunError> {
        let there = look(&self.tidelock, self.id()?).await?;
        Ok(timeline::page(&**self.tidelock.store(), &there.run, after, limit).await?)
    }

    /// The newest that it has [published](crate::runs::RunCtx::publish); nothing if it has not.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if it is not one of these.
    pub async fn published<T: DeserializeOwned>(&self) -> Result<Option<T>, RunError> {
        let there = look(&self.tidelock, self.id()?).await?;
        let status = |entry| match entry {
            Entry::Published(published) => Some(published.status),
            _ => None,
        };
        let status = history::newest(&**self.tidelock.store(), &there, status).await?;
        let about = |e: StoreError| e.about(format_args!("status of run {:?}", there.run.as_str()));
        Ok(status.map(|status| status.to()).transpose().map_err(about)?)
    }

    /// Its result, once it has ended: see [`RunResult`].
    pub fn result<T: DeserializeOwned>(&self) -> RunResult<T> {
        RunResult::new(self.tidelock.clone(), self.id.clone())
    }

    /// Sends it a signal: see [`SendSignal`]. A run that is not started yet finds it when it is.
    pub fn signal(&self, name: &str, payload: &(impl Serialize + ?Sized)) -> SendSignal {
        let letter = self.id().and_then(|run| SignalRequest::new(run.clone(), name, payload));
        let letter = letter.map(|letter| letter.once(self.asked_as()));
        SendSignal::new(CommitTarget::Store(self.tidelock.clone()), letter)
    }

    /// Lets a parked or blocked run go on at once, and answers with where it stands. A run that
    /// somebody drives, that sleeps or waits, or that has ended is left as it is. Nothing is driven
    /// here: a worker takes it, as it takes every run, so this can never drive a run twice.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn resume(&self) -> Result<RunStatus, RunError> {
        resume::resume(&self.tidelock, self.id()?).await
    }

    /// Asks it to cancel. Its sleeps and waits end, steps that have not begun are not begun, its
    /// children are asked too, and its clean-up runs; [`result`](Self::result) tells when all that
    /// is done. It may also complete, if it was quicker.
    ///
    /// # Errors
    /// [`Ended`](RunError::Ended) if it has ended, and as [`get`](Self::get).
    pub async fn cancel(&self, reason: &str) -> Result<(), RunError> {
        let (run, reason) = (self.id()?.clone(), RawJson::new(reason)?);
        let letter = SignalRequest::reserved(run, keys::CANCEL, reason, "cannot be cancelled");
        letter.once(self.asked_as()).send(&self.tidelock).await
    }

    /// Ends it from outside, at once and without clean-up. Whoever drives it writes nothing more.
    /// Its children are left alone.
    ///
    /// # Errors
    /// [`Ended`](RunError::Ended) if it has ended, and as [`get`](Self::get).
    pub async fn terminate(&self, reason: &str) -> Result<(), RunError> {
        let run = self.id()?;
        carry_out(&self.tidelock, RunError::contended(run), || {
            terminate::propose(&self.tidelock, run, reason, self.asked_as())
        })
        .await
    }

    /// Lets a failed run go on from the step that failed: what is recorded is not done again, what
    /// failed is.
    ///
    /// # Errors
    /// [`NotFailed`](RunError::NotFailed) if it has not failed,
    /// [`Compensated`](RunError::Compensated) if its steps were undone,
    /// [`OutOfTime`](RunError::OutOfTime) if its deadline has passed, and as [`get`](Self::get).
    pub async fn retry(&self, reason: &str) -> Result<(), RunError> {
        let run = self.id()?;
        carry_out(&self.tidelock, RunError::contended(run), || {
            retry::propose(&self.tidelock, run, reason, self.asked_as())
        })
        .await
    }

    /// Says what became of a step that must not be done twice, and of which nobody knows whether it
    /// was done.
    ///
    /// # Errors
    /// [`NotAmbiguous`](RunError::NotAmbiguous) if the step does not wait for this,
    /// [`Ended`](RunError::Ended) if the run has ended, and as [`get`](Self::get).
    pub async fn resolve(&self, step: &str, verdict: Verdict) -> Result<(), RunError> {
        resolve::resolve(&self.tidelock, self.id()?, step, verdict, self.asked_as()).await
    }

    fn asked_as(&self) -> Option<&str> {
        self.operation.as_deref()
    }
}
