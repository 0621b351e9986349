//! Arguments of the commands that change a store.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tidelock::When;
use tidelock::store::{LaneName, NamePattern, StreamName};

use super::values::{duration, pattern, when};

/// Which items are selected: targets of reactions, or items of queues.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Selector {
    /// Targets of reactions that match; * matches any characters, ? one
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) reaction: Option<NamePattern>,
    /// Targets that match
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) target: Option<NamePattern>,
    /// Targets that are fed by streams with this name prefix
    #[arg(long, value_name = "PREFIX")]
    pub(crate) source: Option<String>,
    /// Items of queues that match
    #[arg(long, value_name = "PATTERN", value_parser = pattern, conflicts_with_all = ["reaction", "target", "source"])]
    pub(crate) queue: Option<NamePattern>,
    /// Items with keys that match
    #[arg(long, value_name = "PATTERN", value_parser = pattern, requires = "queue")]
    pub(crate) key: Option<NamePattern>,
    /// Only items in this lane
    #[arg(long)]
    pub(crate) lane: Option<LaneName>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnblockArgs {
    #[command(flatten)]
    pub(crate) which: Selector,
    /// Show what would be unblocked, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SkipArgs {
    /// The reaction
    #[arg(long)]
    pub(crate) reaction: String,
    /// The target, as reactions --blocked shows it
    #[arg(long)]
    pub(crate) target: String,
    /// Why; kept with the event
    #[arg(long)]
    pub(crate) reason: String,
    /// Show what would be skipped, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    pub(crate) which: Selector,
    /// Only blocked items
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Also repeat the effects of reactions outside the store
    #[arg(long, conflicts_with = "queue")]
    pub(crate) repeat_effects: bool,
    /// Handle the remaining events even where others were removed when their stream was closed
    #[arg(long, conflicts_with = "queue")]
    pub(crate) partial: bool,
    /// Show what would be reset, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    /// The projection
    pub(crate) projection: String,
    /// Build from the remaining events even where others were removed when their stream was closed
    #[arg(long)]
    pub(crate) partial: bool,
    /// Give up the rebuild: the rows that are read stay
    #[arg(long, conflicts_with = "partial")]
    pub(crate) cancel: bool,
    /// Show what would be rebuilt, and do nothing
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeferArgs {
    /// A duration from now, such as 5m, or a time, such as 2030-01-31T12:00:00Z
    #[arg(value_parser = when)]
    pub(crate) until: When,
    #[command(flatten)]
    pub(crate) which: Selector,
    /// Show what would be deferred, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PrioritizeArgs {
    /// From -100 to 100; higher is first, and 0 is normal
    #[arg(allow_negative_numbers = true)]
    pub(crate) priority: i16,
    #[command(flatten)]
    pub(crate) which: Selector,
    /// Show what would change, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Where routing continues.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Origin {
    /// At the first event of the log
    Beginning,
    /// At the next event that is appended
    Now,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RerouteArgs {
    /// The reaction
    pub(crate) reaction: String,
    /// Where to continue
    #[arg(long, value_enum)]
    pub(crate) from: Origin,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// The claim, with its kind: lock/till, idempotency/pay:42
    pub(crate) claim: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EraseArgs {
    /// The subject
    pub(crate) subject: String,
    /// Show how many events would lose their personal data, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CloseArgs {
    /// The stream
    pub(crate) stream: StreamName,
    /// File that gets every event, as a line of JSON, before it is removed; existing lines stay
    #[arg(long, value_name = "FILE", required_unless_present = "discard")]
    pub(crate) archive: Option<PathBuf>,
    /// Keep the events nowhere: they are lost
    #[arg(long, conflicts_with = "archive")]
    pub(crate) discard: bool,
    /// Ignore what this reaction has left to do; repeatable
    #[arg(long, value_name = "REACTION")]
    pub(crate) ignore: Vec<String>,
    /// How long to wait for reactions to handle the events
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) within: Duration,
    /// Show what would be closed, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}
