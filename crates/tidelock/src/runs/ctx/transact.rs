//! A step whose effect is in the store: it lands in one commit with the step's record, exactly
//! once.

use std::fmt::{self, Debug, Display};
use std::future::IntoFuture;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Commit, ExpectedRevision, ExpectedVersion, Guard, NewEvent, RawJson, RecordKey, RecordWrite,
    Store, StreamName, Wake,
};

use super::effect::{Effort, Failed, begin};
use super::undo::Undoing;
use super::{Retry, RunCtx, StepKey};
use crate::events::{Aggregate, ExecuteError, IntoEvents};
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::reactions::HandlerError;
use crate::runs::activation::{LandingEnd, Op};
use crate::runs::history::{StepDone, Why};
use crate::runs::replay::{End, Kind};
use crate::runs::{InvalidName, StepError, StepName};
use crate::staging::{Stage, Staged};
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
        let tx = Tx::new(effort.ctx, effort.name);
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

/// Says whether it has landed; if not, it is to be staged anew.
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
    match effort
        .op
        .land(entry, Some(End::Done(result)), tx.shared.stage.take())
        .await
        .map_err(unstorable)?
    {
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

/// What a transactional step stages. It lands with the step's record, or not at all. Clones are
/// handles on the same.
#[derive(Debug, Clone)]
pub struct Tx {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stage: Stage,
    key: StepKey,
}

impl Tx {
    fn new(ctx: &RunCtx, name: &StepName) -> Self {
        let activation = &ctx.activation;
        let stage = Stage::new(&activation.tidelock, activation.metadata.clone());
        let key = StepKey::new(ctx.run(), name, ctx.generation());
        Self { shared: Arc::new(Shared { stage, key }) }
    }

    /// The key of the step.
    pub fn key(&self) -> &StepKey {
        &self.shared.key
    }

    /// Everything else that Tidelock can do. Writes made past this are not part of the step.
    pub fn tidelock(&self) -> &Tidelock {
        &self.shared.stage.tidelock
    }

    /// The store, for reading.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.tidelock().store()
    }

    /// What events should say that the run leads to.
    pub fn metadata(&self) -> &Metadata {
        &self.shared.stage.metadata
    }

    /// Stages events at the end of a stream, which must then be as expected.
    pub fn append(
        &self,
        stream: &StreamName,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) {
        self.shared.stage.append(stream, expected, events);
    }

    /// Decides on an aggregate as it is now, and stages what was decided. If somebody else is
    /// quicker, it is decided again.
    ///
    /// # Errors
    /// What the decision said, or what the store did.
    pub async fn execute<A, D, X>(
        &self,
        id: &str,
        decide: impl Fn(&A) -> Result<D, X> + Clone + Send + Sync + 'static,
    ) -> Result<(), ExecuteError<X>>
    where
        A: Aggregate,
        D: IntoEvents<A::Event> + Send + 'static,
        X: Display + Debug + Send + Sync + 'static,
    {
        self.shared.stage.execute(id, decide).await
    }

    /// Takes a decision on what is there now, and stages the parts of a commit that it comes to. If
    /// somebody else is quicker, it is taken again.
    ///
    /// # Errors
    /// Whatever the decision failed with.
    pub async fn decide<F>(
        &self,
        decide: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<(), HandlerError>
    where
        F: Future<Output = Result<Commit, HandlerError>> + Send + 'static,
    {
        self.shared.stage.decide(decide).await
    }

    /// Stages a change to a record.
    pub fn write(&self, write: RecordWrite) {
        self.shared.stage.change(|commit| commit.write(write));
    }

    /// Stages the JSON of this value under a key, whatever was there.
    ///
    /// # Errors
    /// If the value cannot be stored.
    pub fn put(
        &self,
        key: &RecordKey,
        value: &(impl Serialize + ?Sized),
    ) -> tidelock_store::Result<()> {
        self.write(RecordWrite::put(key, ExpectedRevision::Any, RawJson::new(value)?));
        Ok(())
    }

    /// Stages a wake of a work item.
    pub fn wake(&self, wake: Wake) {
        self.shared.stage.change(|commit| commit.wake(wake));
    }

    /// Stages a guard: the step lands only if this is still so.
    pub fn guard(&self, guard: Guard) {
        self.shared.stage.staged().commit.guards.push(guard);
    }

    /// Lands what was done in a transaction of the store's PostgreSQL database with the step. Begin
    /// it with [`PostgresStore::begin`](tidelock_store_postgres::PostgresStore::begin), and write
    /// to tables of your own in it.
    #[cfg(feature = "postgres")]
    pub fn with_postgres(&self, own: tidelock_store_postgres::PgTx) {
        self.shared.stage.staged().door = crate::staging::CommitVia::Postgres(own);
    }

    /// Lands these statements, for tables of your own in the store's SQLite file, with the step.
    #[cfg(feature = "sqlite")]
    pub fn with_sqlite(
        &self,
        store: &tidelock_store_sqlite::SqliteStore,
        own: impl IntoIterator<Item = tidelock_store_sqlite::SqlStatement>,
    ) {
        let own = own.into_iter().collect();
        self.shared.stage.staged().door = crate::staging::CommitVia::Sqlite(store.clone(), own);
    }

    pub(crate) fn staged(&self) -> std::sync::MutexGuard<'_, Staged> {
        self.shared.stage.staged()
    }
}
