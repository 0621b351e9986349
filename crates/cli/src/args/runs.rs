//! Arguments of the commands that look after runs.

use clap::ValueEnum;
use tidelock::RawJson;
use tidelock::runs::RunState;

use super::listing::Paging;
use super::values::{field, json};

/// A state, as it is typed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InState(pub(crate) RunState);

impl ValueEnum for InState {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [InState; 5] = [
            InState(RunState::Open),
            InState(RunState::Completed),
            InState(RunState::Failed),
            InState(RunState::Cancelled),
            InState(RunState::Terminated),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.as_str()))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// Show where this run stands, instead of a list
    pub(crate) run: Option<String>,
    /// Only runs of this workflow
    #[arg(long, conflicts_with = "run")]
    pub(crate) workflow: Option<String>,
    /// Only runs in this state; can be given several times
    #[arg(long, value_enum, conflicts_with = "run")]
    pub(crate) state: Vec<InState>,
    /// Only runs with this attribute; can be given several times
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
    /// What it says, as JSON
    #[arg(default_value = "null", value_parser = json)]
    pub(crate) payload: RawJson,
    /// The signal's id: sent again under it, it is received once
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Send it though there is no such run: it has the signal when it is started
    #[arg(long)]
    pub(crate) early: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The run
    pub(crate) run: String,
    /// Why
    #[arg(long, default_value = "asked for by an operator")]
    pub(crate) reason: String,
    /// End it at once, without clean-up; its children go on
    #[arg(long)]
    pub(crate) terminate: bool,
    /// Say what would be ended, and do nothing
    #[arg(long, requires = "terminate")]
    pub(crate) dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// The run
    pub(crate) run: String,
    /// Why
    #[arg(long, default_value = "asked for by an operator")]
    pub(crate) reason: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run
    pub(crate) run: String,
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

/// What became of the step.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct VerdictArgs {
    /// It was done, with this result, as JSON
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub(crate) done: Option<RawJson>,
    /// It was not done: do it
    #[arg(long)]
    pub(crate) rerun: bool,
    /// It counts as failed, with this error
    #[arg(long, value_name = "ERROR")]
    pub(crate) fail: Option<String>,
}
