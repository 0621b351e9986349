//! Steps: external effects with a recorded result.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::RawJson;

use super::attempts::StepAttempts;
use super::compensation::CompensationStep;
use super::{RunCtx, StepKey};
use crate::handler_error::HandlerError;
use crate::retry::{Retry, RetryLimits};
use crate::runs::history::{StepFailed, Why};
use crate::runs::replay::{End, Kind};
use crate::runs::{InvalidName, StepError, StepName};
use crate::worker::TIMEOUT;

/// What to do about an at-most-once step whose outcome is unknown: its process died during the
/// step, or it exceeded its [timeout](Step::timeout).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnUnknownOutcome<T> {
    /// It counts as failed.
    Fail,
    /// It counts as done, with this result.
    Skip(T),
    /// It runs again. An attempt that times out is repeated as often as [`retry`](Step::retry)
    /// allows, by default as often as any other step.
    Rerun,
    /// It waits for an operator's verdict.
    Ask,
}

impl RunCtx {
    /// Runs an external effect and records its result, under a name that is unique in the run. A
    /// recorded step is not executed again.
    ///
    /// By default the effect happens *at least once*: if the process dies between the effect and
    /// its record, it runs again with the same idempotency key. With
    /// [`at_most_once`](Step::at_most_once) it does not. Effects in the store itself belong into
    /// [`transact`](Self::transact), which happens exactly once.
    ///
    /// A failure is retried according to [`retry`](Step::retry), unless it is a
    /// [`HandlerError::fatal`]. The final failure is recorded and returned to the function, which
    /// can handle it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tidelock::prelude::*;
    ///
    /// async fn charge(key: StepKey, cents: u64) -> Result<String, HandlerError> {
    ///     Ok(format!("receipt for {cents}, idempotency key {key}"))
    /// }
    ///
    /// async fn checkout(ctx: RunCtx, cents: u64) -> Result<String, StepError> {
    ///     ctx.step("charge", |key| charge(key, cents))
    ///         .retry(Retry::attempts(5))
    ///         .timeout(Duration::from_secs(20))
    ///         .await
    /// }
    /// ```
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
        let (retry, timeout, at_most_once, compensate) = (Retry::default(), None, None, None);
        Step { ctx: self, name, effect, retry, timeout, at_most_once, compensate }
    }
}

/// The compensation of a step, given its result.
type Compensate<T> =
    Arc<dyn Fn(T, StepKey) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync>;

/// A step: await it for its result.
#[must_use = "nothing is done before it is awaited"]
pub struct Step<'c, T, F> {
    ctx: &'c RunCtx,
    name: Result<StepName, InvalidName>,
    effect: F,
    retry: Retry,
    timeout: Option<Duration>,
    at_most_once: Option<OnUnknownOutcome<T>>,
    compensate: Option<Compensate<T>>,
}

impl<T, F> fmt::Debug for Step<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T, F> Step<'_, T, F> {
    /// Sets the retry policy. The pauses are stored, so that a waiting run holds no resources; the
    /// time limit counts from the first failure, also across processes.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the timeout of an attempt. The default is [five minutes](crate::worker::TIMEOUT).
    ///
    /// An attempt that takes longer is dropped and counts as failed. For an
    /// [at-most-once](Self::at_most_once) step, the outcome is unknown then, and its policy
    /// applies.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes the step at-most-once: its intent is stored before it runs.
    ///
    /// If the process dies before the result is stored, or the attempt times out, the outcome is
    /// unknown, and `policy` decides. A failure is final, unless [`retry`](Self::retry) is set:
    /// then an attempt that certainly failed is repeated.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::runs::OnUnknownOutcome;
    /// async fn pay(ctx: RunCtx, cents: u32) -> Result<String, StepError> {
    ///     let charge = |_key| async move { Ok::<_, HandlerError>(format!("receipt of {cents}")) };
    ///     // Whether the card was charged is looked up by a person, who resolves the step.
    ///     ctx.step("charge", charge).at_most_once(OnUnknownOutcome::Ask).await
    /// }
    /// ```
    pub fn at_most_once(mut self, policy: OnUnknownOutcome<T>) -> Self {
        self.at_most_once = Some(policy);
        self
    }

    /// Sets the compensation of this step.
    ///
    /// If the run ends in an error, or [`compensate`](RunCtx::compensate) is called, and this step
    /// was done, the compensation runs at least once, with its own idempotency key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// async fn book(ctx: RunCtx, seat: String) -> Result<(), StepError> {
    ///     ctx.step("reserve", |_key| async { Ok::<_, HandlerError>(seat.clone()) })
    ///         .compensate(|seat: String, _key| async move {
    ///             println!("release {seat}");
    ///             Ok::<_, HandlerError>(())
    ///         })
    ///         .await?;
    ///     // If this fails, the run fails, and the seat is released.
    ///     ctx.step("pay", |_key| async { Err::<(), _>(HandlerError::fatal("no funds")) }).await
    /// }
    /// ```
    pub fn compensate<E, R>(
        mut self,
        compensate: impl Fn(T, StepKey) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        self.compensate = Some(Arc::new(move |result, key| {
            compensate(result, key).map(|done| done.map_err(Into::into)).boxed()
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
        let Self { ctx, name, effect, retry, timeout, at_most_once, compensate } = self;
        let name = name?;
        let op = ctx.activation.request(&name, Kind::Step).await;
        if !op.is_ended() {
            op.after_replay().await;
            let rerun = retry.or(RetryLimits::STEP);
            let retry =
                if at_most_once.is_some() { retry.or(RetryLimits::AT_MOST_ONCE) } else { rerun };
            let timeout = timeout.unwrap_or(TIMEOUT);
            let attempts = StepAttempts { ctx, op: &op, name: &name, retry, rerun, timeout };
            attempts.make(effect, at_most_once).await;
        }
        let result = ctx.outcome(&name, op.result().await)?;
        ctx.remember(&name, compensate.map(|f| compensation(result.clone(), f)));
        match result.to() {
            Ok(result) => Ok(result),
            Err(error) => ctx.unfit(&name, &error).await,
        }
    }
}

impl RunCtx {
    /// The result of a step for the function.
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

/// Compensates a step by another one, which gets the result of the first.
fn compensation<T: DeserializeOwned + 'static>(
    result: RawJson,
    compensate: Compensate<T>,
) -> CompensationStep {
    Box::new(move |ctx, name| {
        let (result, compensate) = (result.clone(), compensate.clone());
        let effect = move |key: StepKey| match result.to() {
            Ok(result) => compensate(result, key),
            Err(error) => async move { Err(HandlerError::fatal(error)) }.boxed(),
        };
        ctx.checked_step(Ok(name), effect).into_future()
    })
}

fn error_of(failed: StepFailed) -> StepError {
    let StepFailed { name: step, attempts, error, code, why } = failed;
    match why {
        Why::Failed => StepError::Failed { step, attempts, error, code },
        Why::TimedOut => StepError::TimedOut { step, error },
        Why::UnknownOutcome => StepError::UnknownOutcome { step, error },
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
