//! Waiting for the end of a run, in this process or another.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tidelock_store::{RawJson, RetryAdvice, Topic};

use super::info::load_summary;
use super::status;
use crate::handle::Tidelock;
use crate::runs::history::RunOutcome;
use crate::runs::{InvalidName, RunError, RunId, history, keys};

/// Initial and maximum poll interval. Hints may be lost, and some stores send none to other
/// processes.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A future of a run's result.
///
/// A run that failed, was cancelled or was terminated gives an error. So does a run that [needs an
/// operator](RunError::Parked): it is blocked, or was parked three times in a row without progress.
/// Before that a deployment may be in progress, and the wait continues. Dropping this future leaves
/// the run as it is.
#[must_use = "nothing is waited for before this is awaited"]
pub struct RunResult<T> {
    tidelock: Tidelock,
    run: Result<RunId, InvalidName>,
    within: Option<Duration>,
    even_if_parked: bool,
    result: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for RunResult<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunResult").field("run", &self.run).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> RunResult<T> {
    pub(super) fn new(tidelock: Tidelock, run: Result<RunId, InvalidName>) -> Self {
        Self { tidelock, run, within: None, even_if_parked: false, result: PhantomData }
    }

    /// Sets a timeout. The default is to wait indefinitely.
    ///
    /// A run that has not ended by then gives [`StillOpen`](RunError::StillOpen), which says what
    /// the run waits for.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// Continues to wait while the run is parked, until an operator resumes it.
    pub fn even_if_parked(mut self) -> Self {
        self.even_if_parked = true;
        self
    }

    async fn wait(self) -> Result<T, RunError> {
        let run = self.run?;
        let ended = ended(&self.tidelock, &run, self.even_if_parked);
        let outcome = match self.within {
            None => ended.await?,
            Some(within) => match tokio::time::timeout(within, ended).await {
                Ok(outcome) => outcome?,
                Err(_) => return Err(still_open(&self.tidelock, run, within).await),
            },
        };
        let result = completed(&run, outcome)?;
        Ok(result.to().map_err(|e| e.about(format_args!("result of run {:?}", run.as_str())))?)
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for RunResult<T> {
    type Output = Result<T, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.wait().boxed()
    }
}

/// Polls, and waits for hints, until the run has ended.
async fn ended(
    tidelock: &Tidelock,
    run: &RunId,
    even_if_parked: bool,
) -> Result<RunOutcome, RunError> {
    // Subscribed before the first read, so that no hint is missed.
    let mut signal = tidelock.store().signal(Topic::Record(keys::summary(run)));
    let mut interval = POLL_INTERVAL.0;
    loop {
        match outcome(tidelock, run, even_if_parked).await {
            Ok(Some(outcome)) => return Ok(outcome),
            Ok(None) => {}
            // An unavailable store is asked again: its error says nothing about the run.
            Err(RunError::Store(error)) if error.advice() != RetryAdvice::Never => {}
            Err(error) => return Err(error),
        }
        let _hint = tokio::time::timeout(interval, signal.wait()).await;
        interval = (interval * 2).min(POLL_INTERVAL.1);
    }
}

/// How it ended, if it has. A run that was retried between the two reads continues.
async fn outcome(
    tidelock: &Tidelock,
    run: &RunId,
    even_if_parked: bool,
) -> Result<Option<RunOutcome>, RunError> {
    let (there, store) = (load_summary(tidelock, run).await?, &**tidelock.store());
    if there.summary.state.is_ended() {
        return Ok(history::outcome(store, &there).await?);
    }
    match status::lastingly_parked(store, &there).await? {
        Some(error) if !even_if_parked => Err(RunError::Parked { run: run.clone(), error }),
        _ => Ok(None),
    }
}

/// The timeout error, with the run's status if the store answers soon.
async fn still_open(tidelock: &Tidelock, run: RunId, waited: Duration) -> RunError {
    let status = async {
        let there = load_summary(tidelock, &run).await.ok()?;
        status::of(&**tidelock.store(), &there).await.ok()
    };
    let status = tokio::time::timeout(POLL_INTERVAL.1, status).await.ok().flatten().map(Box::new);
    RunError::StillOpen { run, waited, status }
}

fn completed(run: &RunId, outcome: RunOutcome) -> Result<RawJson, RunError> {
    let run = run.clone();
    match outcome {
        RunOutcome::Completed(result) => Ok(result),
        RunOutcome::Failed(failure) => Err(RunError::Failed { run, failure }),
        RunOutcome::Cancelled(reason) => Err(RunError::Cancelled { run, reason }),
        RunOutcome::Terminated(reason) => Err(RunError::Terminated { run, reason }),
    }
}
