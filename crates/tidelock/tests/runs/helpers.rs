//! Helpers of the run tests: applications with workflows, and their histories.

use std::time::Duration;
use tidelock::store::{StoreExt, StreamName};

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tidelock::AppBuilder;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunHandle, StepError, StepKey};
use tidelock_test_stage::{Observed, PATIENCE, TestStore, brisk};

use crate::flow::Flow;

/// An application of its own process.
pub(crate) async fn process(stage: &TestStore, name: &str) -> AppBuilder {
    stage.tidelock().await.app().worker(brisk(name))
}

/// Starts a run of this workflow, from a process that drives nothing.
pub(crate) async fn start(
    stage: &TestStore,
    workflow: &str,
    run: &str,
    input: &(impl serde::Serialize + ?Sized),
) -> RunHandle {
    let tidelock = stage.tidelock().await;
    tidelock.start(workflow, run, input).version(1).await.unwrap()
}

/// The result, with a timeout.
pub(crate) async fn result<T: DeserializeOwned + 'static>(run: &RunHandle) -> T {
    run.typed().result().within(PATIENCE * 100_000).await.unwrap()
}

/// The error of a failed run.
pub(crate) async fn error(run: &RunHandle) -> String {
    run.result().within(PATIENCE * 100_000).await.unwrap_err().to_string()
}

/// The types of a run's entries, in order.
pub(crate) async fn history(stage: &TestStore, run: &str) -> Vec<String> {
    let stream = StreamName::new(format!("~run/{run}")).unwrap();
    let events = stage.store().await.read_whole_stream(&stream).await.unwrap();
    events
        .iter()
        .map(|event| event.event_type.as_str().trim_start_matches('~').to_owned())
        .collect()
}

/// How often this entry is in the history.
pub(crate) async fn count(stage: &TestStore, run: &str, entry: &str) -> usize {
    history(stage, run).await.iter().filter(|there| *there == entry).count()
}

/// A step's effect that is noted, and succeeds.
pub(crate) async fn see(seen: &Observed, key: StepKey) -> Result<String, HandlerError> {
    seen.note(key.to_string());
    Ok(key.step().to_string())
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A workflow's function with state of the test.
type Function<S, I, O> = fn(RunCtx, I, S) -> BoxFuture<'static, Result<O, StepError>>;

/// A workflow whose function has state of the test.
pub(crate) fn with<S, I, O>(name: &str, state: &S, function: Function<S, I, O>) -> Flow<I, O>
where
    S: Clone + Send + Sync + 'static,
    I: 'static,
    O: 'static,
{
    let state = state.clone();
    Flow::new(name, move |ctx, input| function(ctx, input, state.clone()))
}
