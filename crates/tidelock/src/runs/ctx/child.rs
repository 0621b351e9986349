//! Child runs: started and awaited by another run.

use std::future::IntoFuture;
use std::marker::PhantomData;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{RawJson, Result as StoreResult, StoreError, StoreExt};

use super::{RunCtx, interrupt, invalid};
use crate::runs::activation::{LandingOutcome, Op};
use crate::runs::client::signal::SignalRequest;
use crate::runs::history::{ChildEnded, ChildStarted, Interruptible, RunFailure, RunOutcome};
use crate::runs::registered::Registered;
use crate::runs::replay::{Durability, End, Exit, Kind, On, Wait, Woken};
use crate::runs::start_commit::RunStart;
use crate::runs::summary::{Parent, Summarized};
use crate::runs::{
    InvalidName, RunError, RunId, StepError, StepName, WorkflowName, WorkflowRef, keys,
};
use crate::staging::Staged;

impl RunCtx {
    /// Starts a run of this workflow and waits for its result.
    ///
    /// The start is recorded in the commit that starts the child, so there is exactly one child,
    /// even after a crash. Its id is `run/name`. Cancelling this run cancels the child.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// const CHARGE: Workflow<u32, String> = Workflow::new("charge");
    ///
    /// async fn order(ctx: RunCtx, units: u32) -> Result<String, StepError> {
    ///     let receipt = ctx.child("payment", CHARGE, &units).await?;
    ///     ctx.step("ship", |_key| async { Ok::<_, HandlerError>(()) }).await?;
    ///     Ok(receipt)
    /// }
    /// ```
    pub fn child<W, I>(
        &self,
        name: impl AsRef<str>,
        workflow: W,
        input: &I,
    ) -> ChildRun<'_, W::Output>
    where
        W: WorkflowRef<I>,
        I: Serialize + ?Sized,
    {
        let name = StepName::new(name);
        let workflow = workflow.into_name();
        ChildRun { ctx: self, name, workflow, input: RawJson::new(input), result: PhantomData }
    }
}

/// A child run: await it for its result.
#[must_use = "nothing is started before it is awaited"]
#[derive(Debug)]
pub struct ChildRun<'c, O> {
    ctx: &'c RunCtx,
    name: Result<StepName, InvalidName>,
    workflow: Result<WorkflowName, InvalidName>,
    input: StoreResult<RawJson>,
    result: PhantomData<fn() -> O>,
}

impl<'c, O> ChildRun<'c, O> {
    /// Sets the type as which the result is decoded. A child that is started by a name gives
    /// [`RawJson`].
    pub fn typed<T>(self) -> ChildRun<'c, T> {
        let Self { ctx, name, workflow, input, result: _ } = self;
        ChildRun { ctx, name, workflow, input, result: PhantomData }
    }
}

/// A child with validated names.
struct ValidChild<'a> {
    ctx: &'a RunCtx,
    op: &'a Op<'a>,
    name: &'a StepName,
    run: RunId,
    workflow: WorkflowName,
    input: RawJson,
}

impl<O: DeserializeOwned + Send> ChildRun<'_, O> {
    async fn run(self) -> Result<O, StepError> {
        let (ctx, name, workflow) = (self.ctx, self.name?, self.workflow?);
        let input = self.input.map_err(|e| invalid(name.as_str(), &e))?;
        let run = ctx.run().child(&name, ctx.generation())?;
        let op = ctx.activation.request(&name, Kind::Child).await;
        if !op.is_ended() {
            op.after_replay().await;
            ValidChild { ctx, op: &op, name: &name, run: run.clone(), workflow, input }
                .follow()
                .await;
        }
        match op.result().await {
            End::Child(RunOutcome::Completed(result)) => match result.to() {
                Ok(result) => Ok(result),
                Err(error) => ctx.unfit(&name, &error).await,
            },
            End::Child(outcome) => Err(StepError::Child { name: name.clone(), run, outcome }),
            _ => Err(ctx.cancelled()),
        }
    }
}

impl ValidChild<'_> {
    /// Waits until its end, or this run's cancellation, is recorded.
    async fn follow(&self) {
        if !self.op.is_recorded() {
            if self.ctx.is_cancelled() {
                return interrupt(self.op, self.name, Interruptible::Child);
            }
            self.op.may_begin().await;
            if let Err(error) = self.start().await {
                let error = format!(
                    "child {:?} cannot be started: {}",
                    self.name.as_str(),
                    error.context()
                );
                self.op.activation().replay(|replay| replay.leave(Exit::Park(error)));
                return futures_util::future::pending().await;
            }
        }
        if !self.op.is_ended() {
            self.wait().await;
        }
    }

    async fn start(&self) -> StoreResult<()> {
        let run_start = self.op.effect(self.run_start()).await?;
        let staged = Staged { commit: run_start.parts()?, ..Staged::default() };
        let entry = ChildStarted { name: self.name.clone(), run: self.run.clone() };
        match self.op.commit_with(entry.clone(), staged).await? {
            LandingOutcome::Committed => Ok(()),
            LandingOutcome::Restage => Err(StoreError::invalid("its start was given up")),
            LandingOutcome::Refused(failure) => {
                match self.op.effect(self.is_there(&run_start)).await? {
                    true => self.op.note(entry),
                    false => self.end(RunOutcome::Failed(RunFailure::with_error(format!(
                        "it could not be started: run {:?} is there and is another one ({failure})",
                        self.run.as_str()
                    )))),
                }
            }
        }
    }

    async fn run_start(&self) -> StoreResult<RunStart> {
        let activation = self.op.activation();
        let registered = self.registered().await?;
        let (run, workflow) = (self.run.clone(), self.workflow.clone());
        let mut run_start =
            RunStart::new(run, workflow, registered.version, self.input.clone(), activation.now());
        let own = &activation.summarized.summary;
        run_start.metadata = activation.metadata.traced().into_owned();
        run_start.retention = registered.retention;
        run_start.parent = Some(Parent {
            run: activation.run().clone(),
            name: self.name.clone(),
            workflow: own.workflow.clone(),
            version: own.version,
        });
        Ok(run_start)
    }

    /// The newest version that this process can drive, or else that any process can.
    async fn registered(&self) -> StoreResult<Registered> {
        let tidelock = &self.op.activation().tidelock;
        if let Some(registered) = tidelock.workflows().newest(&self.workflow) {
            return Ok(registered);
        }
        let announced =
            Registered::of(&tidelock.store().get_one(&keys::workflow(&self.workflow)).await?)?;
        announced.ok_or_else(|| {
            StoreError::invalid(format!(
                "workflow {:?} is not registered by any process",
                self.workflow.as_str()
            ))
        })
    }

    /// Requests the child's cancellation, idempotently.
    async fn cancel(&self) -> Result<(), RunError> {
        let reason = format!("its parent, run {:?}, is cancelled", self.ctx.run().as_str());
        let mut request = SignalRequest::reserved(
            self.run.clone(),
            keys::CANCEL,
            RawJson::new(&reason)?,
            "is not cancelled",
        );
        request.content.id = format!("{}/parent", keys::CANCEL);
        request.send(&self.op.activation().tidelock).await
    }

    /// Whether an earlier attempt has started the same child.
    async fn is_there(&self, run_start: &RunStart) -> StoreResult<bool> {
        let slot = self.op.activation().store().get_one(&keys::summary(&self.run)).await?;
        let there = Summarized::of(&self.run, &slot)?;
        Ok(there.is_some_and(|there| {
            run_start.is_of(&there.summary) && there.summary.parent == run_start.parent
        }))
    }

    async fn wait(&self) {
        let on = On::Child(self.run.clone());
        match self.op.wait(Wait { on, until: None, cleanup: self.ctx.cleanup }).await {
            Woken::Child(outcome) => {
                self.end(outcome).expect("what was stored once can be stored again");
            }
            _ => {
                // A child that has ended needs no cancellation.
                if let Err(error) = self.op.effect(self.cancel()).await {
                    tracing::debug!(run = %self.run, %error, "the cancellation of a child failed");
                }
                interrupt(self.op, self.name, Interruptible::Child);
            }
        }
    }

    fn end(&self, outcome: RunOutcome) -> StoreResult<()> {
        self.op.end(ChildEnded { name: self.name.clone(), outcome }, Durability::Lazy)
    }
}

impl<'c, O: DeserializeOwned + Send + 'c> IntoFuture for ChildRun<'c, O> {
    type Output = Result<O, StepError>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}
