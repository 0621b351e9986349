//! The workflow that the workers drive: a step of every kind, a sleep and a wait.

use serde::Deserialize;
use serde_json::Value;
use tidelock::Tidelock;
use tidelock::runs::{RunError, RunHandle};
use tidelock::store::Result as StoreResult;
use tidelock::store::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation};

use crate::caller::{Bug, Caller};
use crate::space::Space;

/// An outside effect, at least once.
pub(crate) const CALL: &str = "call";
/// A transactional step, exactly once.
pub(crate) const COUNT: &str = "count";
/// An outside effect, at most once.
pub(crate) const SEND: &str = "send";
/// A sleep; most are short, and some so long that the run is suspended.
pub(crate) const NAP: &str = "nap";
/// The wait for the signal of this name.
pub(crate) const GO: &str = "go";
/// An outside effect, at least once: the last step.
pub(crate) const THANK: &str = "thank";

/// All of its steps, in order.
pub(crate) const STEPS: [&str; 4] = [CALL, COUNT, SEND, THANK];
/// The at-least-once steps.
pub(crate) const AT_LEAST_ONCE: [&str; 2] = [CALL, THANK];

/// The result of a step that was done, and of the run if all were.
pub(crate) const DONE: &str = "done";
/// The result of a step with an unknown outcome, and of its run.
pub(crate) const UNKNOWN: &str = "unknown";

/// Which is requested first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Start,
    Signal,
}

/// Starts and signals a run; idempotent.
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
    let tidelock = Tidelock::over(caller.store.clone());
    let workflow = space.workflow();
    let start = || async { plain(tidelock.start(&workflow, run, &()).version(1).await) };
    caller.insist("start", start).await.map(drop)
}

async fn let_go(caller: &Caller, run: &str) -> Result<(), Bug> {
    let signal = || async { plain(handle(caller, run).signal(GO, &()).id(GO).await) };
    caller.insist("signal", signal).await
}

pub(crate) fn handle(caller: &Caller, run: &str) -> RunHandle {
    Tidelock::over(caller.store.clone()).runs().run(run)
}

/// Converts an error of a run to a store error: contention can be retried, everything else cannot.
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

/// The payload of an entry about a step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) result: Value,
}

/// The payload of the last entry of a history.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Completed {
    pub(crate) result: String,
}
