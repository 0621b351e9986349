//! Arguments of the commands about jobs, schedules and pauses.

use std::time::Duration;

use tidelock::jobs::JobState;
use tidelock::store::{NamePattern, QueueName, RawJson};

use super::listing::Paging;
use super::values::{duration, json, pattern};

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
    #[command(flatten)]
    pub(crate) content: ScheduleContent,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "delete")]
    pub(crate) yes: bool,
}

/// What to do with a schedule; it is shown by default.
#[derive(Debug, clap::Args)]
#[group(multiple = false, requires = "schedule")]
pub(crate) struct ScheduleVerb {
    /// Create or change it: minute, hour, day, month, day of the week; or six fields, with seconds
    /// first
    #[arg(long, value_name = "PATTERN")]
    pub(crate) cron: Option<String>,
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

/// What a schedule starts, and when.
#[derive(Debug, clap::Args)]
pub(crate) struct ScheduleContent {
    /// Start runs of this workflow
    #[arg(long, requires = "cron", conflicts_with = "queue")]
    pub(crate) workflow: Option<String>,
    /// Enqueue jobs in this queue
    #[arg(long, requires = "cron")]
    pub(crate) queue: Option<QueueName>,
    /// The input of the runs, or the payload of the jobs, as JSON
    #[arg(long, value_name = "JSON", requires = "cron", default_value = "null", value_parser = json)]
    pub(crate) input: RawJson,
    /// The time zone of the pattern
    #[arg(long, requires = "cron", default_value = "UTC")]
    pub(crate) zone: String,
    /// Leave an occurrence out while the run or job of an earlier one is unfinished
    #[arg(long, requires = "cron")]
    pub(crate) skip_overlap: bool,
    /// Leave out missed occurrences that are older than this; by default the newest starts
    #[arg(long, value_name = "DURATION", requires = "cron", value_parser = duration)]
    pub(crate) tolerance: Option<Duration>,
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
