//! Arguments of the commands about jobs, schedules and pauses.

use tidelock::jobs::JobState;
use tidelock::store::{NamePattern, QueueName};

use super::listing::Paging;
use super::values::pattern;

#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// Only jobs of this queue
    #[arg(long)]
    pub(crate) queue: Option<QueueName>,
    /// Only jobs with keys that match; * matches any characters, ? one
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) key: Option<NamePattern>,
    /// Only jobs in this state: scheduled, queued, running, retrying, blocked, done, cancelled or
    /// discarded; by default those that are unfinished
    #[arg(long)]
    pub(crate) state: Option<JobState>,
    #[command(flatten)]
    pub(crate) paging: Paging,
    /// Show errors in full
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiscardArgs {
    /// The queue
    #[arg(long)]
    pub(crate) queue: QueueName,
    /// Only jobs with keys that match; * matches any characters, ? one
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) key: Option<NamePattern>,
    /// Why; kept with the jobs
    #[arg(long)]
    pub(crate) reason: String,
    /// Also cancel jobs that are not blocked, running ones too
    #[arg(long)]
    pub(crate) unfinished: bool,
    /// Show how many jobs would be discarded, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SchedulesArgs {
    /// The schedule; without it, all of them are listed
    pub(crate) schedule: Option<String>,
    #[command(flatten)]
    pub(crate) verb: ScheduleVerb,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "delete")]
    pub(crate) yes: bool,
}

/// What to do with a schedule; it is shown by default.
#[derive(Debug, clap::Args)]
#[group(multiple = false, requires = "schedule")]
pub(crate) struct ScheduleVerb {
    /// Start nothing until it is resumed
    #[arg(long)]
    pub(crate) pause: bool,
    /// Continue with its next occurrence
    #[arg(long)]
    pub(crate) resume: bool,
    /// Start a run or enqueue a job now
    #[arg(long)]
    pub(crate) trigger: bool,
    /// Delete it; what it has started is left alone
    #[arg(long)]
    pub(crate) delete: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) subject: Option<PauseSubjectArgs>,
    /// Why
    #[arg(long, default_value = "requested by an operator")]
    pub(crate) reason: String,
}

/// What is paused or resumed.
#[derive(Debug, Clone, clap::Args)]
#[group(multiple = false)]
pub(crate) struct PauseSubjectArgs {
    /// A queue: its jobs and items
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// The handlers of a reaction; its events are still routed
    #[arg(long)]
    pub(crate) reaction: Option<String>,
    /// The runs of a workflow
    #[arg(long)]
    pub(crate) workflow: Option<String>,
}
