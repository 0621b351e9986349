//! Small workflows, and what is observed of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tidelock::StoredEvent;
use tidelock::prelude::*;
use tidelock::reactions::AppBuilder;
use tidelock::runs::{RunCtx, RunError, RunHandle, RunStatus, StepError, Workflow};
use tidelock_test_stage::{Observed, brisk, until};

/// A workflow's function with state of the test.
pub(crate) fn flow<I, O, F>(function: F) -> F
where
    F: for<'c> Fn(&'c mut RunCtx, I) -> BoxFuture<'c, Result<O, StepError>>,
{
    function
}

/// A short lease, so that takeovers are fast in real time.
pub(crate) fn soon(workflow: Workflow) -> Workflow {
    workflow.lease(Duration::from_millis(800))
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
pub(crate) fn app(tidelock: &Tidelock, name: &str, workflow: Workflow) -> AppBuilder {
    tidelock.app().worker(brisk(name)).register(workflow)
}

/// Waits until the run has this status.
pub(crate) async fn until_it(
    run: &RunHandle,
    what: &str,
    stands: impl Fn(&RunStatus) -> bool,
) -> RunStatus {
    until(&format!("the run {what}"), async || stands(&run.standing().await.unwrap())).await;
    run.standing().await.unwrap()
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
    run.result().within(tidelock_test_stage::PATIENCE).await
}
