//! Small workflows, and what is observed of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock::AppBuilder;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunError, RunHandle, RunStatus, StepError, WorkflowOptions};
use tidelock::store::{StoreExt, StoredEvent, StreamName};
use tidelock_test_stage::{Observed, brisk, until};

/// A workflow's function with state of the test.
type Function<I, O> =
    Arc<dyn Fn(RunCtx, I) -> BoxFuture<'static, Result<O, StepError>> + Send + Sync>;

/// A workflow with its function and options, to register in several processes.
pub(crate) struct Flow<I, O> {
    options: WorkflowOptions<I, O>,
    function: Function<I, O>,
}

impl<I, O> Clone for Flow<I, O> {
    fn clone(&self) -> Self {
        Self { options: self.options.clone(), function: self.function.clone() }
    }
}

impl<I: 'static, O: 'static> Flow<I, O> {
    pub(crate) fn new<R>(
        name: impl AsRef<str>,
        function: impl Fn(RunCtx, I) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        let function = Arc::new(move |ctx, input| function(ctx, input).boxed());
        Self { options: WorkflowOptions::named(name), function }
    }

    /// Changes the options.
    pub(crate) fn options(
        mut self,
        change: impl FnOnce(WorkflowOptions<I, O>) -> WorkflowOptions<I, O>,
    ) -> Self {
        self.options = change(self.options);
        self
    }
}

/// Registers a workflow with its function.
pub(crate) trait Register {
    fn register<I, O>(self, flow: Flow<I, O>) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static;
}

impl Register for AppBuilder {
    fn register<I, O>(self, flow: Flow<I, O>) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
    {
        let function = flow.function;
        self.workflow(flow.options, move |ctx: RunCtx, input: I| function(ctx, input))
    }
}

/// A short lease, so that takeovers are fast in real time.
pub(crate) fn soon<I: 'static, O: 'static>(flow: Flow<I, O>) -> Flow<I, O> {
    flow.options(|options| options.lease(Duration::from_millis(800)))
}

/// A switch that a test turns on and off.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(crate) fn turn(&self, on: bool) {
        self.0.store(on, Ordering::SeqCst);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A step that is noted whenever it runs.
pub(crate) async fn seen(ctx: &RunCtx, name: &str, seen: &Observed) -> Result<(), StepError> {
    let note = |key: tidelock::runs::StepKey| {
        seen.note(key.to_string());
        async { Ok::<_, HandlerError>(()) }
    };
    ctx.step(name, note).await
}

/// An application with this workflow.
pub(crate) fn app<I, O>(tidelock: &Tidelock, name: &str, flow: Flow<I, O>) -> AppBuilder
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    tidelock.app().worker(brisk(name)).register(flow)
}

/// Waits until the run has this status.
pub(crate) async fn until_it(
    run: &RunHandle,
    what: &str,
    stands: impl Fn(&RunStatus) -> bool,
) -> RunStatus {
    until(&format!("the run {what}"), async || stands(&run.status().await.unwrap())).await;
    run.status().await.unwrap()
}

/// The events of the run's stream.
pub(crate) async fn history(tidelock: &Tidelock, run: &str) -> Vec<StoredEvent> {
    let stream = StreamName::new(format!("~run/{run}")).unwrap();
    tidelock.store().read_whole_stream(&stream).await.unwrap()
}

/// How many of its events are of this type.
pub(crate) async fn count(tidelock: &Tidelock, run: &str, event_type: &str) -> usize {
    let events = history(tidelock, run).await;
    events.iter().filter(|event| event.event_type.as_str() == event_type).count()
}

/// The result, with a timeout.
pub(crate) async fn result<T: DeserializeOwned + 'static>(run: &RunHandle) -> Result<T, RunError> {
    run.typed().result().within(tidelock_test_stage::PATIENCE).await
}
