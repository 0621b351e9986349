//! Replay of a recorded history against changed code.

use std::error::Error;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::RawJson;

use crate::runs::client::RunExport;
use crate::runs::dry_run::{DryEnd, DryRun, dry_run};
use crate::runs::history::Entry;
use crate::runs::{Definition, IntoWorkflow, RunCtx, RunOutcome};

/// What the function does after the recorded history, which it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterReplay {
    /// It ends, as the recorded run did if that has ended.
    Ends(RunOutcome),
    /// It would begin this step or child, which is not recorded.
    Begins(String),
    /// It waits for a time, a signal or a child.
    Waits,
    /// It would continue as new.
    ContinuesAsNew,
}

/// Why a recorded history does not fit a workflow's code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misfit {
    /// The run.
    pub run: String,
    /// The number of the recorded entry that does not fit; `None` if the history has no more.
    pub position: Option<u64>,
    /// The name of the step, sleep, wait or child of that entry.
    pub step: Option<String>,
    /// What is recorded there.
    pub expected: String,
    /// What the code does instead.
    pub found: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, position, expected, found, .. } = self;
        let place = position.map_or("after its last entry".into(), |at| format!("at entry {at}"));
        write!(
            f,
            "run {run:?} does not fit the code, {place}: expected {expected} (recorded), found \
             {found}; keep the old code registered under the run's version, or branch with \
             ctx.patched"
        )
    }
}

/// Why a history could not be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The code does not fit the history.
    #[error("{0}")]
    Misfit(Box<Misfit>),
    /// The run would be parked for another reason, such as a panic.
    #[error("run {run:?} would be parked: {error}")]
    Parked {
        /// The run.
        run: String,
        /// The error.
        error: String,
    },
    /// The file is not an exported history of this workflow.
    #[error("{0}")]
    Unreadable(String),
}

/// Replays a recorded history against the function of a workflow, and reports what no longer fits.
///
/// The history is a file that `tidelock runs ID --export FILE` has written, or a
/// [`RunExport`]'s text. What is recorded is replayed as a worker would; no effect runs and nothing
/// is written anywhere. A run that has ended has to end in the same way again: a completed one with
/// the same result.
///
/// # Errors
/// [`Misfit`](ReplayError::Misfit) with the entry and the step at which the code takes another way,
/// and what the recorded run did there.
///
/// # Examples
///
/// ```
/// use tidelock::prelude::*;
/// use tidelock::testing::{ReplayError, TestApp, replay};
///
/// const DELIVERY: Workflow<u32, u32> = Workflow::new("delivery");
///
/// async fn deliver(ctx: RunCtx, units: u32) -> Result<u32, StepError> {
///     ctx.step("pack", |_key| async { Ok::<_, HandlerError>(units) }).await?;
///     ctx.step("ship", |_key| async { Ok::<_, HandlerError>(units) }).await
/// }
///
/// // The next version ships in another way, and forgets the runs that have begun.
/// async fn changed(ctx: RunCtx, units: u32) -> Result<u32, StepError> {
///     ctx.step("weigh", |_key| async { Ok::<_, HandlerError>(units) }).await?;
///     ctx.step("ship", |_key| async { Ok::<_, HandlerError>(units) }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let test = TestApp::start(|tidelock| tidelock.app().workflow(DELIVERY, deliver)).await;
/// test.tidelock().start(DELIVERY, "order-7", &3).await?;
/// test.run_until_idle().await;
/// let history = test.run("order-7").export().to_string(); // or include_str!("order-7.json")
///
/// replay(DELIVERY, deliver, &history).await?;
/// let Err(ReplayError::Misfit(misfit)) = replay(DELIVERY, changed, &history).await else {
///     panic!("it does not fit")
/// };
/// assert_eq!((misfit.position, misfit.step.as_deref()), (Some(2), Some("pack")));
/// assert_eq!(misfit.found, r#"step "weigh""#);
/// # Ok(())
/// # }
/// ```
pub async fn replay<W, I, O, E, F, R>(
    workflow: W,
    function: F,
    history: impl AsRef<str>,
) -> Result<AfterReplay, ReplayError>
where
    W: IntoWorkflow<I, O>,
    F: Fn(RunCtx, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    let unreadable =
        |error: tidelock_store::StoreError| ReplayError::Unreadable(error.context().to_owned());
    let export: RunExport = history.as_ref().parse().map_err(unreadable)?;
    let definition = Definition::new(&workflow.into_workflow(), function);
    let name = definition.checked_name();
    let name = name.map_err(|error| ReplayError::Unreadable(error.to_string()))?;
    if name != export.workflow {
        return Err(ReplayError::Unreadable(format!(
            "the history of run {:?} is of workflow {:?}, not of {:?}",
            export.run.as_str(),
            export.workflow.as_str(),
            name.as_str()
        )));
    }
    judge(&export, dry_run(definition, &export).await.map_err(unreadable)?)
}

fn judge(export: &RunExport, ran: DryRun) -> Result<AfterReplay, ReplayError> {
    let run = export.run.as_str().to_owned();
    let found = match ran.end {
        DryEnd::Parked(error) => return Err(ReplayError::Parked { run, error }),
        DryEnd::Misfit(mismatch) => {
            let (step, is_end) = mismatch
                .recorded
                .map_or((None, false), |(name, is_end)| (Some(name.as_str().to_owned()), is_end));
            let position = step.as_deref().and_then(|step| position(export, step, is_end));
            let (expected, found) = (mismatch.expected, mismatch.found);
            let misfit = Misfit { run, position, step, expected, found };
            return Err(ReplayError::Misfit(Box::new(misfit)));
        }
        DryEnd::Ended(outcome) => AfterReplay::Ends(outcome),
        DryEnd::Begins(effect) => AfterReplay::Begins(effect),
        DryEnd::Waits => AfterReplay::Waits,
        DryEnd::ContinuesAsNew => AfterReplay::ContinuesAsNew,
    };
    match ran.recorded {
        Some(recorded) if !is_same_end(&recorded, &found) => {
            let position = export.entries.last().map(|entry| entry.number);
            let (expected, found) = (told(&recorded), told_after(&found));
            let misfit = Misfit { run, position, step: None, expected, found };
            Err(ReplayError::Misfit(Box::new(misfit)))
        }
        _ => Ok(found),
    }
}

/// The number of the entry that begins or ends the operation.
fn position(export: &RunExport, step: &str, is_end: bool) -> Option<u64> {
    let is_meant = |entry: &&crate::runs::ExportedEntry| {
        let ends = Entry::decode_exported(entry).is_ok_and(|entry| entry.answered().is_some());
        entry.name().as_deref() == Some(step) && (ends || !is_end)
    };
    export.entries.iter().find(is_meant).map(|entry| entry.number)
}

/// Whether the run ends as it did. A terminated run was cut short, so everything is allowed; the
/// texts of errors may change.
fn is_same_end(recorded: &RunOutcome, found: &AfterReplay) -> bool {
    match (recorded, found) {
        (RunOutcome::Terminated(_), _) => true,
        (RunOutcome::Completed(one), AfterReplay::Ends(RunOutcome::Completed(other))) => {
            one.same_value(other)
        }
        (RunOutcome::Failed(_), AfterReplay::Ends(RunOutcome::Failed(_)))
        | (RunOutcome::Cancelled(_), AfterReplay::Ends(RunOutcome::Cancelled(_))) => true,
        _ => false,
    }
}

fn told(outcome: &RunOutcome) -> String {
    let result = |result: &RawJson| result.as_str().to_owned();
    match outcome {
        RunOutcome::Completed(value) => format!("the end of the run with result {}", result(value)),
        RunOutcome::Failed(failure) => format!("the failure of the run with {:?}", failure.error),
        RunOutcome::Cancelled(_) => "the cancellation of the run".to_owned(),
        RunOutcome::Terminated(_) => "the termination of the run".to_owned(),
    }
}

fn told_after(after: &AfterReplay) -> String {
    match after {
        AfterReplay::Ends(outcome) => told(outcome),
        AfterReplay::Begins(effect) => effect.clone(),
        AfterReplay::Waits => "a wait".to_owned(),
        AfterReplay::ContinuesAsNew => "a new generation".to_owned(),
    }
}
