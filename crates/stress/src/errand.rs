//! The runs that the workers of a round drive: errands, with a step of every kind, a nap and a
//! wait.

use serde::Deserialize;
use serde_json::Value;
use tidelock::runs::{RunError, RunHandle};
use tidelock::store::Result as StoreResult;
use tidelock::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation, Tidelock};

use crate::caller::{Bug, Caller};
use crate::space::Space;

/// Done outside, at least once.
pub(crate) const CALL: &str = "call";
/// Done in the store, exactly once.
pub(crate) const COUNT: &str = "count";
/// Done outside, at most once.
pub(crate) const SEND: &str = "send";
/// A sleep; most are short, and some so long that the run is put down meanwhile.
pub(crate) const NAP: &str = "nap";
/// The wait for the signal of this name.
pub(crate) const GO: &str = "go";
/// Done outside, at least once: the last step.
pub(crate) const THANK: &str = "thank";

/// All of its steps, in order.
pub(crate) const STEPS: [&str; 4] = [CALL, COUNT, SEND, THANK];
/// Those that are done at least once.
pub(crate) const AT_LEAST_ONCE: [&str; 2] = [CALL, THANK];

/// What a step says that was done, and the errand if everything was.
pub(crate) const DONE: &str = "done";
/// What a step says of which nobody knows whether it was done, and the errand too.
pub(crate) const UNKNOWN: &str = "unknown";

/// Which is asked for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Start,
    Signal,
}

/// Starts an errand and lets it go, once however often this is done.
pub(crate) async fn ask_for(
    caller: &Caller,
    space: &Space,
    run: &str,
    first: First,
) -> Result<(), Bug> {
    match first {
        First::Start => {
            start(caller, space, run).await?;
            let_go(caller, run).await
        }
        First::Signal => {
            let_go(caller, run).await?;
            start(caller, space, run).await
        }
    }
}

async fn start(caller: &Caller, space: &Space, run: &str) -> Result<(), Bug> {
    let runs = Tidelock::over(caller.store.clone()).runs();
    let workflow = space.workflow();
    let start = || async { plain(runs.start(&workflow, run, &()).version(1).await) };
    caller.insist("start", start).await.map(drop)
}

async fn let_go(caller: &Caller, run: &str) -> Result<(), Bug> {
    let signal = || async { plain(handle(caller, run).signal(GO, &()).id(GO).await) };
    caller.insist("signal", signal).await
}

pub(crate) fn handle(caller: &Caller, run: &str) -> RunHandle {
    Tidelock::over(caller.store.clone()).runs().run(run)
}

/// What the store said, of whatever went wrong with a run; the rest is nothing that trying again
/// helps against, but for others who were quicker.
pub(crate) fn plain<T>(answer: Result<T, RunError>) -> StoreResult<T> {
    answer.map_err(|error| match error {
        RunError::Store(error) => error,
        RunError::Contended { .. } => {
            let (kind, advice) = (StoreErrorKind::Unavailable, RetryAdvice::Later);
            StoreError::new(kind, advice, StoreOperation::Commit, error.to_string())
        }
        other => StoreError::invalid(other.to_string()),
    })
}

/// What an entry of a history says of the step that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) result: Value,
}

/// What the last entry of a history says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Completed {
    pub(crate) result: String,
}
