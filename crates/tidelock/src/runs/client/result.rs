//! Waiting for the end of a run, in this process or another.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tidelock_store::{RawJson, RetryAdvice, Topic};

use super::look::look;
use super::status;
use crate::handle::Tidelock;
use crate::runs::history::RunOutcome;
use crate::runs::{InvalidName, RunError, RunId, history, keys};

/// How often the run is looked at without being told, at first and later: a hint may be lost, and
/// some never come from another process.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The result of a run, once it has one: await it.
///
/// A run that failed, was cancelled or was terminated is an error that says so. So is one that
/// [will not go on by itself](RunError::Parked): it is blocked, or was parked three times in a row
/// without progress between; before that a deploy may be under way, and it is waited for. Giving up
/// leaves the run as it is.
#[derive(Debug)]
#[must_use = "nothing is waited for before this is awaited"]
pub struct RunResult<T> {
    tidelock: Tidelock,
    run: Result<RunId, InvalidName>,
    within: Option<Duration>,
    even_if_parked: bool,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> RunResult<T> {
    pub(super) fn new(tidelock: Tidelock, run: Result<RunId, InvalidName>) -> Self {
        Self { tidelock, run, within: None, even_if_parked: false, result: PhantomData }
    }

    /// The same, for this long: a run that has not ended by then is [still
    /// open](RunError::StillOpen), and the error says what it waits for. By default it is waited
    /// for however long it takes.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// The same, also while the run is parked: for callers that wait until an operator has resumed
    /// it.
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

/// Looks, and waits for a hint or for a while, until the run has ended.
async fn ended(
    tidelock: &Tidelock,
    run: &RunId,
    even_if_parked: bool,
) -> Result<RunOutcome, RunError> {
    // Taken before the first look, so that nothing is missed between them.
    let mut signal = tidelock.store().signal(Topic::Record(keys::summary(run)));
    let mut pause = PAUSES.0;
    loop {
        match outcome(tidelock, run, even_if_parked).await {
            Ok(Some(outcome)) => return Ok(outcome),
            Ok(None) => {}
            // A store that does not answer is asked again: it says nothing about the run.
            Err(RunError::Store(error)) if error.advice() != RetryAdvice::Never => {}
            Err(error) => return Err(error),
        }
        let _hint = tokio::time::timeout(pause, signal.wait()).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// How it ended, if it has. A run that was retried between the two looks goes on.
async fn outcome(
    tidelock: &Tidelock,
    run: &RunId,
    even_if_parked: bool,
) -> Result<Option<RunOutcome>, RunError> {
    let (there, store) = (look(tidelock, run).await?, &**tidelock.store());
    if there.summary.state.is_ended() {
        return Ok(history::outcome(store, &there).await?);
    }
    match status::lastingly_parked(store, &there).await? {
        Some(error) if !even_if_parked => Err(RunError::Parked { run: run.clone(), error }),
        _ => Ok(None),
    }
}

/// The error for a run that was waited for so long, with where it stands, if the store says so
/// soon.
async fn still_open(tidelock: &Tidelock, run: RunId, waited: Duration) -> RunError {
    let stands = async {
        let there = look(tidelock, &run).await.ok()?;
        status::of(&**tidelock.store(), &there).await.ok()
    };
    let standing = tokio::time::timeout(PAUSES.1, stands).await.ok().flatten().map(Box::new);
    RunError::StillOpen { run, waited, standing }
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
