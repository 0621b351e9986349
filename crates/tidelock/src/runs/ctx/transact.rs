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

use super::effect::{Effort, Failed, begin};
use super::undo::Undoing;
use super::{Retry, RunCtx, StepKey};
use crate::reactions::HandlerError;
use crate::runs::activation::{LandingEnd, Op};
use crate::runs::history::{StepDone, Why};
use crate::runs::replay::{End, Kind};
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
        TransactStep { ctx: self, name, effect, retry, timeout, undo: None }
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
    undo: Option<Undo<T>>,
}

/// How the result of a transactional step is undone.
type Undo<T> = Arc<dyn Fn(T, Tx) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync>;

impl<T, F> Debug for TransactStep<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transact").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T, F> TransactStep<'_, T, F> {
    /// The same, tried so often.
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
    pub fn compensate<E, R>(mut self, undo: impl Fn(T, Tx) -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        self.undo = Some(Arc::new(move |result, tx| {
            undo(result, tx).map(|done| done.map_err(Into::into)).boxed()
        }));
        self
    }
}

/// Undoes a step by another one, which is given the result of the first.
fn undoing<T: DeserializeOwned + 'static>(result: RawJson, undo: Undo<T>) -> Undoing {
    Box::new(move |ctx, name| {
        let (result, undo) = (result.clone(), undo.clone());
        let undo = move |tx: Tx| match result.to() {
            Ok(result) => undo(result, tx),
            Err(error) => async move { Err(HandlerError::fatal(error)) }.boxed(),
        };
        ctx.checked_transact(Ok(name), undo).into_future()
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
        let Self { ctx, name, effect, retry, timeout, undo } = self;
        let name = name?;
        let op = ctx.activation.ask(&name, Kind::Step).await;
        if !op.is_ended() {
            op.new_ground().await;
            land(&Effort { ctx, op: &op, name: &name, retry, rerun: retry, timeout }, effect).await;
        }
        let result = ctx.outcome(&name, op.ended().await)?;
        ctx.remember(&name, undo.map(|undo| undoing(result.clone(), undo)));
        match result.to() {
            Ok(result) => Ok(result),
            Err(error) => ctx.unfit(&name, &error).await,
        }
    }
}

/// Tries until it has landed or failed for good.
async fn land<T, E, F, R>(effort: &Effort<'_>, effect: F)
where
    T: Serialize + Send,
    F: Fn(Tx) -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<HandlerError>,
{
    let mut attempts = effort.op.record().attempts;
    while effort.may_try().await {
        let tx = tx(effort.ctx, effort.name);
        let staged = match begin(|| effect(tx.clone())) {
            Ok(staging) => within(effort.timeout, stage(effort.op, staging)).await,
            Err(failed) => Some(Err(failed)),
        };
        let landed = match staged.unwrap_or_else(|| Err(Failed::late(effort.timeout))) {
            Ok(result) => commit(effort, &tx, RawJson::new(&result)).await,
            Err(failed) => Err(failed),
        };
        match landed {
            Ok(true) => return,
            // Nothing was wrong with it: a signal came between.
            Ok(false) => {}
            Err(failed) => {
                attempts += 1;
                if !effort.again(attempts, &failed) {
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
    effort: &Effort<'_>,
    tx: &Tx,
    result: tidelock_store::Result<RawJson>,
) -> Result<bool, Failed> {
    let unstorable = |error: tidelock_store::StoreError| {
        failed(HandlerError::fatal(error.context().to_owned()), Why::Unstorable)
    };
    let result = result.map_err(unstorable)?;
    let entry = StepDone { name: effort.name.clone(), result: result.clone() };
    match effort.op.land(entry, Some(End::Done(result)), tx.finish()).await.map_err(unstorable)? {
        LandingEnd::Landed => Ok(true),
        LandingEnd::Anew => Ok(false),
        LandingEnd::Refused(failure) => Err(failed(failure, Why::Failed)),
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
