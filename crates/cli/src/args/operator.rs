//! Arguments of the commands that change what is in a store.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tidelock::{LaneName, NamePattern, StreamName, When};

use super::values::{duration, pattern, when};

/// Which items are meant: targets of reactions, or items of queues.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Which {
    /// Targets of reactions like this; * stands for any characters, ? for one
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) reaction: Option<NamePattern>,
    /// Targets like this
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) target: Option<NamePattern>,
    /// Targets that are fed by streams whose names begin with this
    #[arg(long, value_name = "PREFIX")]
    pub(crate) source: Option<String>,
    /// Items of queues like this
    #[arg(long, value_name = "PATTERN", value_parser = pattern, conflicts_with_all = ["reaction", "target", "source"])]
    pub(crate) queue: Option<NamePattern>,
    /// Items with keys like this
    #[arg(long, value_name = "PATTERN", value_parser = pattern, requires = "queue")]
    pub(crate) key: Option<NamePattern>,
    /// Only what is in this lane
    #[arg(long)]
    pub(crate) lane: Option<LaneName>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UnblockArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Say what would be unblocked, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Only what is blocked
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Repeat what reactions did outside the store, too
    #[arg(long, conflicts_with = "queue")]
    pub(crate) repeat_effects: bool,
    /// Handle what is left, also where events are gone because the books of their stream were
    /// closed
    #[arg(long, conflicts_with = "queue")]
    pub(crate) partial: bool,
    /// Say what would be reset, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeferArgs {
    /// How long from now, such as 5m, or until which moment, such as 2030-01-31T12:00:00Z
    #[arg(value_parser = when)]
    pub(crate) until: When,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Say what would be deferred, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PrioritizeArgs {
    /// From -100 to 100; higher goes first, and 0 is normal
    #[arg(allow_negative_numbers = true)]
    pub(crate) priority: i16,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Say what would change, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Where routing goes on.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Origin {
    /// With the first event there is
    Beginning,
    /// With the next event that comes
    Now,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RerouteArgs {
    /// The reaction
    pub(crate) reaction: String,
    /// Where to go on
    #[arg(long, value_enum)]
    pub(crate) from: Origin,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// The claim, with its kind: lock/till, idempotency/pay:42
    pub(crate) claim: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CloseArgs {
    /// The stream
    pub(crate) stream: StreamName,
    /// File that gets every event, as a line of JSON, before it goes; what is there already stays
    #[arg(long, value_name = "FILE", required_unless_present = "discard")]
    pub(crate) archive: Option<PathBuf>,
    /// Keep the events nowhere: they are lost
    #[arg(long, conflicts_with = "archive")]
    pub(crate) discard: bool,
    /// Whatever this reaction has left to do; can be given several times
    #[arg(long, value_name = "REACTION")]
    pub(crate) ignore: Vec<String>,
    /// How long to wait for reactions to handle what is there
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) patience: Duration,
    /// Say what would be closed, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}
