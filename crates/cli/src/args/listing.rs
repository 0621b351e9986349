//! Arguments of the commands that only read.

use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum;
use tidelock::claims::ClaimState;
use tidelock::doctor::Thresholds;
use tidelock::queues::ItemState;
use tidelock::store::{EventType, LaneName, Position, StreamName, Version};

use super::values::{duration, field, pattern, position, version};

/// How many rows to show.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Paging {
    /// Show at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// Show all rows
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Paging {
    pub(crate) fn wanted(self) -> usize {
        if self.all { usize::MAX } else { self.limit }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct StreamsArgs {
    /// Only streams with this name prefix
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Only streams after this one, by name
    #[arg(long, value_name = "STREAM")]
    pub(crate) after: Option<StreamName>,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EventsArgs {
    /// The stream; without it, the feed of all streams
    pub(crate) stream: Option<StreamName>,
    /// Start at this version of the stream
    #[arg(long, value_name = "VERSION", value_parser = version, requires = "stream")]
    pub(crate) from: Option<Version>,
    /// Start after this position of the feed; 0 is before all events
    #[arg(long, value_name = "POSITION", value_parser = position, conflicts_with = "stream")]
    pub(crate) after: Option<Position>,
    /// Newest first; needs a stream
    #[arg(long, requires = "stream", conflicts_with = "follow")]
    pub(crate) backward: bool,
    /// Only events of this type; repeatable
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<EventType>,
    /// Only events of streams with this name prefix
    #[arg(long, value_name = "PREFIX", conflicts_with = "stream", default_value = "")]
    pub(crate) prefix: String,
    /// Only events with this in their metadata; repeatable
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field, conflicts_with = "stream")]
    pub(crate) metadata: Vec<(String, String)>,
    /// Keep running, and show events as they are appended: new ones only, unless --from or --after
    /// is given
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Show payloads in full
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LeasesArgs {
    /// Only queues that match; * matches any characters, ? one
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) queue: Option<tidelock::store::NamePattern>,
    /// Only keys that match
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) key: Option<tidelock::store::NamePattern>,
    /// Only this lane
    #[arg(long)]
    pub(crate) lane: Option<LaneName>,
    /// Only items in this state; repeatable
    #[arg(long, value_enum)]
    state: Vec<ItemStateArg>,
    /// Only items after this one
    #[arg(long, num_args = 2, value_names = ["QUEUE", "KEY"])]
    pub(crate) after: Vec<String>,
    /// Show errors in full
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

impl LeasesArgs {
    pub(crate) fn wants(&self, state: ItemState) -> bool {
        self.state.is_empty() || self.state.iter().any(|wanted| wanted.0 == state)
    }

    /// Whether only these states are requested.
    pub(crate) fn wants_only(&self, states: &[ItemState]) -> bool {
        !self.state.is_empty() && self.state.iter().all(|wanted| states.contains(&wanted.0))
    }
}

/// An item's state, as it is typed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ItemStateArg(ItemState);

impl ValueEnum for ItemStateArg {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<[ItemStateArg; 7]> =
            LazyLock::new(|| ItemState::ALL.map(ItemStateArg));
        &*ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.as_str()))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProjectionsArgs {
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RowsArgs {
    /// The projection
    pub(crate) projection: String,
    /// Only the row of this target
    #[arg(long, conflicts_with_all = ["after", "limit", "all"])]
    pub(crate) target: Option<String>,
    /// Only rows after that of this target
    #[arg(long, value_name = "TARGET")]
    pub(crate) after: Option<String>,
    /// Show rows in full
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReactionsArgs {
    /// Only reactions that match; * matches any characters, ? one
    #[arg(value_name = "PATTERN", value_parser = pattern)]
    pub(crate) reaction: Option<tidelock::store::NamePattern>,
    /// Only targets that match
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) target: Option<tidelock::store::NamePattern>,
    /// Only blocked targets
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Only targets with work left
    #[arg(long)]
    pub(crate) lagging: bool,
    /// Show the routing progress of each reaction, and its router, instead of its targets
    #[arg(long, conflicts_with_all = ["target", "blocked", "lagging"])]
    pub(crate) routes: bool,
    /// Show the events that operators skipped, and why, instead
    #[arg(long, conflicts_with_all = ["routes", "blocked", "lagging"])]
    pub(crate) skipped: bool,
    /// Show errors in full
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ScopesArgs {
    /// Only this kind
    pub(crate) kind: Option<String>,
    /// Only ids with this prefix
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Show documents in full
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ClaimsArgs {
    /// Only claims with this name prefix: lock/, idempotency/pay:
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Only claims in this state; repeatable
    #[arg(long, value_enum)]
    state: Vec<ClaimStateArg>,
    /// Show quotas in use instead of claims
    #[arg(long, conflicts_with_all = ["state", "full"])]
    pub(crate) quotas: bool,
    /// Show errors in full
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) paging: Paging,
}

impl ClaimsArgs {
    pub(crate) fn wants(&self, state: ClaimState) -> bool {
        self.state.is_empty() || self.state.iter().any(|wanted| wanted.0 == state)
    }
}

/// A claim's state, as it is typed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimStateArg(ClaimState);

impl ValueEnum for ClaimStateArg {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [ClaimStateArg; 4] = [
            ClaimStateArg(ClaimState::Pending),
            ClaimStateArg(ClaimState::Stale),
            ClaimStateArg(ClaimState::Done),
            ClaimStateArg(ClaimState::Failed),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.as_str()))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// How long something can wait before it counts as not moving, such as 30s, 5m or 1h
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    stuck_after: Duration,
    /// How long something can be held without progress before it counts as hung
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    hung_after: Duration,
    /// From which share on recent claims that timed out or failed are reported, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = Thresholds::default().failing_claims)]
    failing_claims: u8,
    /// How long the writes to records are watched, to find hot ones; 0s does without
    #[arg(long, value_name = "DURATION", default_value = "250ms", value_parser = duration)]
    sample: Duration,
    /// Show at most this many findings of each kind
    #[arg(long, value_name = "COUNT", default_value_t = Thresholds::default().show)]
    show: usize,
    /// Examine at most this many work items
    #[arg(long, value_name = "COUNT", default_value_t = Thresholds::default().scan)]
    scan: usize,
    /// Examine at most this many open runs, newest first
    #[arg(long, value_name = "COUNT", default_value_t = Thresholds::default().runs)]
    runs: usize,
}

impl DoctorArgs {
    pub(crate) fn bounds(&self) -> Thresholds {
        Thresholds {
            stuck_after: self.stuck_after,
            hung_after: self.hung_after,
            failing_claims: self.failing_claims,
            sample: self.sample,
            show: self.show,
            scan: self.scan,
            runs: self.runs,
        }
    }
}
