//! A step whose effect is in the store: it lands in one commit with the step's record, exactly
//! once.

use std::fmt::{self, Debug};
use std::future::IntoFuture;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::RawJson;

use super::attempts::{Failed, StepAttempts, begin};
use super::compensation::CompensationStep;
use super::{RunCtx, StepKey};
use crate::handler_error::HandlerError;
use crate::retry::{Retry, RetryLimits};
use crate::runs::activation::{LandingOutcome, Op};
use crate::runs::history::{StepDone, Why};
use crate::runs::replay::Kind;
use crate::runs::{InvalidName, StepError, StepName};
use crate::staging::Tx;
use crate::worker::{TIMEOUT, panic_message, within};

impl RunCtx {
    /// Stages writes to the store, which land in one commit with the record of the step: exactly
    /// once, or not at all.
    ///
    /// What the closure does besides is done at least once. It is run again if a part that it
    /// staged does not hold any more; decisions that others were quicker than are taken again
    /// without it.
    pub fn transact<T, E, F, R>(&self, name: impl AsRef<str>, effect: F) -> TransactStep<'_, T, F>
    where
        F: Fn(Tx) -> R,
        R: Future<Output = Result<T, E>>,
        E: Into<HandlerError>,
    {
        self.checked_transact(StepName::new(name), effect)
    }

    fn checked_transact<T, F>(
        &self,
        name: Result<StepName, InvalidName>,
        effect: F,
    ) -> TransactStep<'_, T, F> {
        let (retry, timeout) = (Retry::default(), TIMEOUT);
        TransactStep { ctx: self, name, effect, retry, timeout, compensate: None }
    }
}

/// A step in the store, to be awaited.
#[must_use = "nothing is done before it is awaited"]
pub struct TransactStep<'c, T, F> {
    ctx: &'c RunCtx,
    name: Result<StepName, InvalidName>,
    effect: F,
    retry: Retry,
    timeout: Duration,
    compensate: Option<Compensate<T>>,
}

/// How the result of a transactional step is undone.
type Compensate<T> =
    Arc<dyn Fn(T, Tx) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync>;

impl<T, F> Debug for TransactStep<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transact").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T, F> TransactStep<'_, T, F> {
    /// Sets the retry policy, as of a [step](super::Step::retry).
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The same; an attempt whose closure takes longer is dropped with what it staged, and counts
    /// as failed. The default is [five minutes](crate::worker::TIMEOUT).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same; if the run ends in an error, or [`compensate`](RunCtx::compensate) is called, and
    /// this step was done, this undoes it, exactly once: what it stages lands in one commit with
    /// the record that it is undone.
    pub fn compensate<E, R>(
        mut self,
        compensate: impl Fn(T, Tx) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        self.compensate = Some(Arc::new(move |result, tx| {
            compensate(result, tx).map(|done| done.map_err(Into::into)).boxed()
        }));
        self
    }
}

/// Undoes a step by another one, which is given the result of the first.
fn compensation<T: DeserializeOwned + 'static>(
    result: RawJson,
    compensate: Compensate<T>,
) -> CompensationStep {
    Box::new(move |ctx, name| {
        let (result, compensate) = (result.clone(), compensate.clone());
        let effect = move |tx: Tx| match result.to() {
            Ok(result) => compensate(result, tx),
            Err(error) => async move { Err(HandlerError::fatal(error)) }.boxed(),
        };
        ctx.checked_transact(Ok(name), effect).into_future()
    })
}

impl<T, E, F, R> TransactStep<'_, T, F>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(Tx) -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<HandlerError>,
{
    async fn run(self) -> Result<T, StepError> {
        let Self { ctx, name, effect, retry, timeout, compensate } = self;
        let name = name?;
        let op = ctx.activation.request(&name, Kind::Step).await;
        if !op.is_ended() {
            op.after_replay().await;
            let retry = retry.or(RetryLimits::STEP);
            let attempts = StepAttempts { ctx, op: &op, name: &name, retry, rerun: retry, timeout };
            land(&attempts, effect).await;
        }
        let result = ctx.outcome(&name, op.result().await)?;
        ctx.remember(&name, compensate.map(|f| compensation(result.clone(), f)));
        match result.to() {
            Ok(result) => Ok(result),
            Err(error) => ctx.unfit(&name, &error).await,
        }
    }
}

/// Tries until it has landed or failed for good.
async fn land<T, E, F, R>(step: &StepAttempts<'_>, effect: F)
where
    T: Serialize + Send,
    F: Fn(Tx) -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<HandlerError>,
{
    let mut attempts = step.op.progress().attempts;
    while step.may_try().await {
        let tx = tx(step.ctx, step.name);
        let staged = match begin(|| effect(tx.clone())) {
            Ok(staging) => within(step.timeout, stage(step.op, staging)).await,
            Err(failed) => Some(Err(failed)),
        };
        let landed = match staged.unwrap_or_else(|| Err(Failed::late(step.timeout))) {
            Ok(result) => commit(step, &tx, RawJson::new(&result)).await,
            Err(failed) => Err(failed),
        };
        match landed {
            Ok(true) => return,
            // Nothing was wrong with it: a signal came between.
            Ok(false) => {}
            Err(failed) => {
                attempts += 1;
                if !step.again(attempts, &failed) {
                    return;
                }
            }
        }
    }
}

async fn stage<T, E: Into<HandlerError>>(
    op: &Op<'_>,
    staging: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, Failed> {
    match op.effect(AssertUnwindSafe(staging).catch_unwind()).await {
        Ok(staged) => staged.map_err(|error| failed(error.into(), Why::Failed)),
        Err(panic) => Err(Failed::panicked(panic_message(&*panic))),
    }
}

/// The unit of work of one attempt.
fn tx(ctx: &RunCtx, name: &StepName) -> Tx {
    let key = StepKey::new(ctx.run(), name, ctx.generation());
    Tx::new(&ctx.activation.tidelock, ctx.activation.metadata.clone(), key.to_string())
}

/// Says whether it has landed; if not, it is to be staged again.
async fn commit(
    step: &StepAttempts<'_>,
    tx: &Tx,
    result: tidelock_store::Result<RawJson>,
) -> Result<bool, Failed> {
    let unstorable = |error: tidelock_store::StoreError| {
        failed(HandlerError::fatal(error.context().to_owned()), Why::Unstorable)
    };
    let result = result.map_err(unstorable)?;
    let entry = StepDone { name: step.name.clone(), result };
    match step.op.commit_with(entry, tx.finish()).await.map_err(unstorable)? {
        LandingOutcome::Committed => Ok(true),
        LandingOutcome::Restage => Ok(false),
        LandingOutcome::Refused(failure) => Err(failed(failure, Why::Failed)),
    }
}

fn failed(failure: HandlerError, why: Why) -> Failed {
    Failed { failure, why }
}

impl<'c, T, E, F, R> IntoFuture for TransactStep<'c, T, F>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(Tx) -> R + Send + 'c,
    R: Future<Output = Result<T, E>> + Send + 'c,
    E: Into<HandlerError> + 'c,
{
    type Output = Result<T, StepError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}
