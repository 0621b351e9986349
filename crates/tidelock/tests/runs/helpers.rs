//! What the cases of the engine have in common: applications with workflows, and histories to look
//! at.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tidelock::prelude::*;
use tidelock::reactions::AppBuilder;
use tidelock::runs::{RunCtx, RunHandle, StepError, StepKey, Workflow};
use tidelock_test_stage::{Observed, PATIENCE, TestStore, brisk};

/// An application of a process of its own.
pub(crate) async fn process(stage: &TestStore, name: &str) -> AppBuilder {
    stage.tidelock().await.app().worker(brisk(name))
}

/// Starts a run of this workflow, as a process that drives nothing.
pub(crate) async fn start(
    stage: &TestStore,
    workflow: &str,
    run: &str,
    input: &(impl serde::Serialize + ?Sized),
) -> RunHandle {
    let tidelock = stage.tidelock().await;
    tidelock.runs().start(workflow, run, input).version(1).await.unwrap()
}

/// The result, within the patience of tests.
pub(crate) async fn result<T: DeserializeOwned + 'static>(run: &RunHandle) -> T {
    run.result().within(PATIENCE * 100_000).await.unwrap()
}

/// The error that it ended in.
pub(crate) async fn error(run: &RunHandle) -> String {
    run.result::<serde_json::Value>().within(PATIENCE * 100_000).await.unwrap_err().to_string()
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

/// How often this is in the history.
pub(crate) async fn count(stage: &TestStore, run: &str, entry: &str) -> usize {
    history(stage, run).await.iter().filter(|there| *there == entry).count()
}

/// A step's effect that is seen, and succeeds.
pub(crate) async fn see(seen: &Observed, key: StepKey) -> Result<String, HandlerError> {
    seen.note(key.to_string());
    Ok(key.step().to_string())
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a workflow's function with some state of the test's is.
type Function<S, I, O> = for<'c> fn(&'c mut RunCtx, I, S) -> BoxFuture<'c, Result<O, StepError>>;

/// A workflow whose function has some state of the test's.
pub(crate) fn with<S, I, O>(name: &str, state: &S, function: Function<S, I, O>) -> Workflow
where
    S: Clone + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: serde::Serialize + Send + 'static,
{
    let state = state.clone();
    Workflow::boxed(name, move |ctx, input| function(ctx, input, state.clone()))
}
