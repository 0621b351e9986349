//! A step: one effect, recorded.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::RawJson;

use super::effect::Effort;
use super::undo::Undoing;
use super::{RunCtx, StepKey};
use crate::reactions::{Backoff, HandlerError};
use crate::runs::history::{StepFailed, Why};
use crate::runs::replay::{End, Kind};
use crate::runs::{InvalidName, StepError, StepName};
use crate::worker::TIMEOUT;

/// How often a step is tried, and what pauses there are between. The pauses are stored, so that a
/// run does not hold on to anything meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// How often at most, the first time included.
    pub attempts: u32,
    /// The pauses.
    pub backoff: Backoff,
}

impl Default for Retry {
    /// Ten times, with pauses from 100 milliseconds up to a minute.
    fn default() -> Self {
        Self::attempts(10)
    }
}

impl Retry {
    /// So many times, with the usual pauses.
    pub fn attempts(attempts: u32) -> Self {
        Self { attempts, backoff: Backoff::default() }
    }

    /// Once.
    pub fn never() -> Self {
        Self::attempts(1)
    }

    /// Until it succeeds, or says that trying again cannot help.
    pub fn forever() -> Self {
        Self::attempts(u32::MAX)
    }

    /// The same, with these pauses.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }
}

/// What to do about a step that must not be done twice and of which it is not known whether it was
/// done: the process that began it died, or it took longer than its [timeout](Step::timeout).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnUnknownOutcome<T> {
    /// It counts as failed.
    Fail,
    /// It counts as done, with this result.
    Skip(T),
    /// It is done again, after all: one that takes too long each time as often as
    /// [`retry`](Step::retry) says, by default as often as any other step.
    Rerun,
    /// An operator is asked.
    Ask,
}

impl RunCtx {
    /// Does something outside, and records its result, under a name that is unique in the run. A
    /// step that is recorded is not done again.
    ///
    /// By default it happens *at least once*: if the process dies between the effect and its
    /// record, it is done again, with the same key, by which the other side can tell. With
    /// [`at_most_once`](Step::at_most_once) it is not. For effects in the store itself there is
    /// [`transact`](Self::transact), which happens exactly once.
    ///
    /// A failure is tried again as [`retry`](Step::retry) says, unless it is a
    /// [`HandlerError::fatal`]; then it is recorded and given to the function, which can handle it.
    pub fn step<T, E, F, R>(&self, name: impl AsRef<str>, effect: F) -> Step<'_, T, F>
    where
        F: Fn(StepKey) -> R,
        R: Future<Output = Result<T, E>>,
        E: Into<HandlerError>,
    {
        self.checked_step(StepName::new(name), effect)
    }

    pub(super) fn checked_step<T, F>(
        &self,
        name: Result<StepName, InvalidName>,
        effect: F,
    ) -> Step<'_, T, F> {
        let (retry, timeout, at_most_once, undo) = (None, None, None, None);
        Step { ctx: self, name, effect, retry, timeout, at_most_once, undo }
    }
}

/// How the result of a step is undone.
type Undo<T> =
    Arc<dyn Fn(T, StepKey) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync>;

/// A step, to be awaited.
#[must_use = "nothing is done before it is awaited"]
pub struct Step<'c, T, F> {
    ctx: &'c RunCtx,
    name: Result<StepName, InvalidName>,
    effect: F,
    retry: Option<Retry>,
    timeout: Option<Duration>,
    at_most_once: Option<OnUnknownOutcome<T>>,
    undo: Option<Undo<T>>,
}

impl<T, F> fmt::Debug for Step<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T, F> Step<'_, T, F> {
    /// The same, tried so often.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// The same; an attempt that takes longer is dropped, and counts as failed. The default is
    /// [five minutes](crate::worker::TIMEOUT). What became of one [at most
    /// once](Self::at_most_once) is not known then, and its policy says what follows.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same, never done twice: that it is about to be done is stored first. If the process dies
    /// before the result is stored, or the attempt times out, the step is ambiguous, and `policy`
    /// says what then. A failure is final, unless [`retry`](Self::retry) says otherwise: then an
    /// attempt that failed for certain is made again.
    pub fn at_most_once(mut self, policy: OnUnknownOutcome<T>) -> Self {
        self.at_most_once = Some(policy);
        self
    }

    /// The same; if the run ends in an error, or [`compensate`](RunCtx::compensate) is called, and
    /// this step was done, this undoes it: at least once, with a key of its own.
    pub fn compensate<E, R>(
        mut self,
        undo: impl Fn(T, StepKey) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        self.undo = Some(Arc::new(move |result, key| {
            undo(result, key).map(|done| done.map_err(Into::into)).boxed()
        }));
        self
    }
}

impl<T, E, F, R> Step<'_, T, F>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(StepKey) -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<HandlerError>,
{
    async fn run(self) -> Result<T, StepError> {
        let Self { ctx, name, effect, retry, timeout, at_most_once, undo } = self;
        let name = name?;
        let op = ctx.activation.ask(&name, Kind::Step).await;
        if !op.is_ended() {
            op.new_ground().await;
            let rerun = retry.unwrap_or_default();
            let retry =
                if at_most_once.is_some() { retry.unwrap_or(Retry::never()) } else { rerun };
            let timeout = timeout.unwrap_or(TIMEOUT);
            let effort = Effort { ctx, op: &op, name: &name, retry, rerun, timeout };
            effort.make(effect, at_most_once).await;
        }
        let result = ctx.outcome(&name, op.ended().await)?;
        ctx.remember(&name, undo.map(|undo| undoing(result.clone(), undo)));
        match result.to() {
            Ok(result) => Ok(result),
            Err(error) => ctx.unfit(&name, &error).await,
        }
    }
}

impl RunCtx {
    /// What the end of a step means to the function.
    pub(super) fn outcome(&self, name: &StepName, end: End) -> Result<RawJson, StepError> {
        match end {
            End::Done(result) => Ok(result),
            End::Failed(failed) => Err(error_of(failed)),
            _ => {
                tracing::debug!(run = %self.run(), step = %name, "cut short");
                Err(self.cancelled())
            }
        }
    }
}

/// Undoes a step by another one, which is given the result of the first.
fn undoing<T: DeserializeOwned + 'static>(result: RawJson, undo: Undo<T>) -> Undoing {
    Box::new(move |ctx, name| {
        let (result, undo) = (result.clone(), undo.clone());
        let undo = move |key: StepKey| match result.to() {
            Ok(result) => undo(result, key),
            Err(error) => async move { Err(HandlerError::fatal(error)) }.boxed(),
        };
        ctx.checked_step(Ok(name), undo).into_future()
    })
}

fn error_of(failed: StepFailed) -> StepError {
    let StepFailed { name: step, attempts, error, why } = failed;
    match why {
        Why::Failed => StepError::Failed { step, attempts, error },
        Why::TimedOut => StepError::TimedOut { step, error },
        Why::Ambiguous => StepError::Ambiguous { step, error },
        Why::Unstorable => StepError::Unstorable { step, error },
    }
}

impl<'c, T, E, F, R> IntoFuture for Step<'c, T, F>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(StepKey) -> R + Send + 'c,
    R: Future<Output = Result<T, E>> + Send + 'c,
    E: Into<HandlerError> + 'c,
{
    type Output = Result<T, StepError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}
