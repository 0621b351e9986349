//! Arguments of the commands for runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tidelock::runs::RunState;
use tidelock::store::RawJson;

use super::jobs::PauseSubjectArgs;
use super::listing::Paging;
use super::values::{duration, field, json};

/// A run's state, as it is typed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunStateArg(pub(crate) RunState);

impl ValueEnum for RunStateArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [RunStateArg; 5] = [
            RunStateArg(RunState::Open),
            RunStateArg(RunState::Completed),
            RunStateArg(RunState::Failed),
            RunStateArg(RunState::Cancelled),
            RunStateArg(RunState::Terminated),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.as_str()))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// Show the status of this run, instead of a list
    pub(crate) run: Option<String>,
    /// Write its history to this file as JSON, to replay it in a test; - for standard output
    #[arg(long, value_name = "FILE", requires = "run")]
    pub(crate) export: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "export")]
    pub(crate) overwrite: bool,
    /// Only runs of this workflow
    #[arg(long, conflicts_with = "run")]
    pub(crate) workflow: Option<String>,
    /// Only runs in this state; repeatable
    #[arg(long, value_enum, conflicts_with = "run")]
    pub(crate) state: Vec<RunStateArg>,
    /// Only runs with this attribute; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = field, conflicts_with = "run")]
    pub(crate) attribute: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SignalArgs {
    /// The run
    pub(crate) run: String,
    /// The signal
    pub(crate) signal: String,
    /// The payload, as JSON
    #[arg(default_value = "null", value_parser = json)]
    pub(crate) payload: RawJson,
    /// The signal's id: sent again under it, the signal is received once
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Send it even if there is no such run: the run receives it when it is started
    #[arg(long)]
    pub(crate) early: bool,
}

/// Which runs are meant: one by its id, or all that match.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct RunSelector {
    /// The run
    #[arg(conflicts_with_all = ["workflow", "attribute", "older_than", "parked"])]
    pub(crate) run: Option<String>,
    /// All runs of this workflow that are in the right state
    #[arg(long)]
    pub(crate) workflow: Option<String>,
    /// All runs with this attribute; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = field)]
    pub(crate) attribute: Vec<(String, String)>,
    /// All runs that were started longer ago than this, such as 7d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,
    /// All runs that are parked
    #[arg(long)]
    pub(crate) parked: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) which: RunSelector,
    /// The reason
    #[arg(long, default_value = "requested by an operator")]
    pub(crate) reason: String,
    /// Terminate at once, without clean-up; children continue
    #[arg(long)]
    pub(crate) terminate: bool,
    /// Terminate the children of the run, too, and theirs
    #[arg(long, requires_all = ["terminate", "run"])]
    pub(crate) children: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) which: RunSelector,
    /// The reason
    #[arg(long, default_value = "requested by an operator")]
    pub(crate) reason: String,
    /// Show what would be retried, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) subject: Option<PauseSubjectArgs>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResolveArgs {
    /// The run
    pub(crate) run: String,
    /// The step
    pub(crate) step: String,
    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,
}

/// The verdict on the step.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct VerdictArgs {
    /// It was carried out, with this result, as JSON
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub(crate) done: Option<RawJson>,
    /// It was not carried out: run it
    #[arg(long)]
    pub(crate) rerun: bool,
    /// It counts as failed, with this error
    #[arg(long, value_name = "ERROR")]
    pub(crate) fail: Option<String>,
}
