//! What clients ask, and what they are answered.

use serde::{Deserialize, Serialize};

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// An atomic commit.
    Commit(Commit),
    /// To read a stream forward from after a version, to its end or less.
    ReadStream {
        /// The stream.
        stream: String,
        /// The version before the first one to return; 0 for the beginning.
        after: u64,
    },
    /// To read records, all at one moment.
    ReadRecords {
        /// Their keys.
        keys: Vec<String>,
    },
    /// To read the feed.
    ReadFeed {
        /// The follower: pages of one follower continue each other.
        follower: String,
        /// The position after which the page begins.
        after: u64,
        /// Only events of streams whose names begin so.
        prefix: String,
    },
    /// To acquire rights: a lock, a key, a compound of them, or the leases of due items.
    Acquire {
        /// The rights by name; empty if the store chooses among those that are due.
        rights: Vec<String>,
        /// The caller.
        holder: String,
    },
    /// To renew a right.
    Renew {
        /// The right.
        right: String,
        /// The fence under which it is held.
        fence: u64,
    },
    /// To give a right back, or to complete it with a result.
    Release {
        /// The right.
        right: String,
        /// The fence under which it is held.
        fence: u64,
        /// The result of a key.
        result: Option<String>,
    },
    /// An operator's request to end all leases whose name begins so.
    Revoke {
        /// The beginning of the rights' names.
        prefix: String,
    },
    /// To change the state of a scope.
    Mutate {
        /// The scope.
        scope: String,
        /// The operation id, under which it takes effect once.
        operation: Option<String>,
        /// What the scope is expected to be.
        expected: Expected,
        /// The change.
        change: Change,
    },
    /// To read a scope.
    ReadScope {
        /// The scope.
        scope: String,
    },
    /// To take units of a quota.
    Take {
        /// The quota.
        quota: String,
        /// The most units that may be out at a time.
        limit: i64,
        /// The grant or reservation.
        id: String,
        /// How many.
        units: i64,
    },
    /// To return what was taken.
    Refund {
        /// The quota.
        quota: String,
        /// The grant or reservation.
        id: String,
    },
}

impl Action {
    /// What it is, in a few words.
    pub fn name(&self) -> String {
        match self {
            Self::Commit(commit) => {
                let parts: Vec<String> = commit.parts.iter().take(4).map(Part::name).collect();
                let more = if commit.parts.len() > 4 { ", ..." } else { "" };
                format!("commit({}{more})", parts.join(", "))
            }
            Self::ReadStream { stream, after } => format!("read {stream} after {after}"),
            Self::ReadRecords { keys } => format!("get {}", keys.join(", ")),
            Self::ReadFeed { follower, after, .. } => format!("feed of {follower} after {after}"),
            Self::Acquire { rights, .. } => format!("acquire {}", rights.join(", ")),
            Self::Renew { right, fence } => format!("renew {right} under {fence}"),
            Self::Release { right, fence, .. } => format!("release {right} under {fence}"),
            Self::Revoke { prefix } => format!("revoke {prefix}*"),
            Self::Mutate { scope, change, .. } => format!("mutate {scope}: {change:?}"),
            Self::ReadScope { scope } => format!("read {scope}"),
            Self::Take { quota, units, .. } => format!("take {units} of {quota}"),
            Self::Refund { quota, id } => format!("refund {id} of {quota}"),
        }
    }
}

/// An atomic commit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Its id: the same commits under one id are one commit, sent several times.
    pub id: Option<String>,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A part of a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Events at the end of a stream.
    Append {
        /// The stream.
        stream: String,
        /// What the stream is expected to be; exactly a version.
        expected: Expected,
        /// The ids of the events.
        events: Vec<String>,
        /// Whether the stream is closed after them.
        close: bool,
    },
    /// A change of a record.
    Write {
        /// The record.
        key: String,
        /// What the record is expected to be; exactly a revision.
        expected: Expected,
        /// The change.
        change: Change,
        /// When the record expires, if ever.
        expires: Option<Expiry>,
    },
    /// A stream that must be as expected.
    GuardStream {
        /// The stream.
        stream: String,
        /// What it is expected to be.
        expected: Expected,
    },
    /// A record that must be as expected.
    GuardRecord {
        /// The record.
        key: String,
        /// What it is expected to be.
        expected: Expected,
    },
    /// A right that must still be held.
    Fence {
        /// The right.
        right: String,
        /// The fence under which it is held.
        fence: u64,
    },
    /// A right that ends with the commit.
    Settle {
        /// The right.
        right: String,
        /// The fence under which it is held.
        fence: u64,
    },
    /// The removal of the oldest events of a closed stream.
    Trim {
        /// The stream.
        stream: String,
        /// The last version to remove.
        through: u64,
        /// Whether the stream is open afterwards.
        reopen: bool,
        /// Whether the store forgets the stream if it stays empty.
        forget: bool,
    },
    /// A part that no checker looks at: a wake, a restored item.
    Other,
}

impl Part {
    /// The ids of the events that it appends.
    pub(crate) fn events(&self) -> impl Iterator<Item = &str> {
        let events = match self {
            Self::Append { events, .. } => events.as_slice(),
            _ => &[],
        };
        events.iter().map(String::as_str)
    }

    fn name(&self) -> String {
        match self {
            Self::Append { stream, expected, events, close } => {
                let close = if *close { " and close" } else { "" };
                format!("append {} to {stream} at {expected}{close}", events.join("+"))
            }
            Self::Write { key, expected, change, .. } => {
                format!("write {change:?} to {key} at {expected}")
            }
            Self::GuardStream { stream: key, expected } | Self::GuardRecord { key, expected } => {
                format!("guard {key} at {expected}")
            }
            Self::Fence { right, fence } => format!("under {fence} of {right}"),
            Self::Settle { right, fence } => format!("settle {fence} of {right}"),
            Self::Trim { stream, through, .. } => format!("trim {stream} through {through}"),
            Self::Other => "other".to_owned(),
        }
    }
}

/// Optimistic concurrency: what a stream, a record or a scope is expected to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Anything.
    #[default]
    Any,
    /// Not there.
    Absent,
    /// There.
    Exists,
    /// There, at this version or revision.
    Exactly(u64),
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Absent => f.write_str("none"),
            Self::Exists => f.write_str("some"),
            Self::Exactly(number) => number.fmt(f),
        }
    }
}

/// When a record expires, in microseconds of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    /// At this moment.
    At(i64),
    /// This long after the commit.
    In(i64),
}

/// A change of a record or a scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Sets the value.
    Put(String),
    /// Deletes it. The deletion of what is not there changes nothing.
    Delete,
    /// Adds to an integer, within bounds. What is not there counts as zero.
    Add {
        /// The value to add.
        delta: i64,
        /// The least value.
        min: Option<i64>,
        /// The greatest value.
        max: Option<i64>,
    },
    /// Draws on a rate limit: the value is when everything drawn will have been replenished.
    Rate {
        /// How long the draw takes to be replenished, in microseconds.
        cost: i64,
        /// How far ahead the value may lie, in microseconds.
        burst: i64,
    },
    /// Edits a document: the edit as the store has it, as JSON.
    Edit(String),
    /// Adds an element at the end of a list; see [`list_value`](super::list_value).
    Push(String),
}

/// What a client was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done(Answer),
    /// It was judged and refused; nothing was written. Every part of a commit that failed is
    /// named, or none if they are not known.
    Refused(Vec<Refusal>),
    /// It certainly did not happen, for another reason.
    Failed(String),
    /// It happened, happens later, or never.
    Unknown(String),
}

/// The answer to what was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A commit landed.
    Committed {
        /// When, by the store's clock.
        at: i64,
        /// The answers to its parts, in order.
        parts: Vec<PartAnswer>,
    },
    /// A part of a stream.
    Stream(StreamRead),
    /// The records that were asked for, in order.
    Records(Vec<Slot>),
    /// A page of the feed.
    Page {
        /// The events.
        events: Vec<EventRef>,
        /// The position to continue after.
        next: u64,
    },
    /// The rights that were granted.
    Granted(Vec<Grant>),
    /// The key was completed before, with this result.
    Result(String),
    /// The right is now held until then, by the store's clock.
    Renewed(i64),
    /// The right is free, or completed.
    Released,
    /// The scope was changed.
    Mutated {
        /// The revision that the change made, where it is known.
        revision: Option<u64>,
        /// The value or the sum that it made, or the length of the list that it made.
        value: Option<String>,
    },
    /// The units are out.
    Taken {
        /// From this moment, or earlier, by the store's clock.
        from: i64,
        /// Until this moment, unless they are returned before.
        until: i64,
    },
    /// The units are back.
    Refunded {
        /// From this moment, by the store's clock.
        at: i64,
    },
}

/// The answer to a part of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartAnswer {
    /// The part held.
    #[default]
    Held,
    /// The events are there.
    Appended {
        /// The version of the last event.
        version: u64,
        /// The positions of the first and the last event.
        positions: Option<(u64, u64)>,
        /// They were there before, from an earlier commit.
        replayed: bool,
    },
    /// The record was changed.
    Written {
        /// The revision that the change made; none if nothing was there to delete.
        revision: Option<u64>,
        /// The sum that an addition made.
        sum: Option<i64>,
    },
}

/// A part of a commit, or another request, that was refused: what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The index of the part.
    pub part: usize,
    /// What was found there.
    pub found: Found,
}

/// The state on account of which something was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// The state of a stream.
    Stream {
        /// Its version, if it exists.
        version: Option<u64>,
        /// Whether it is closed.
        closed: bool,
    },
    /// The state of a record or a scope.
    Slot(Slot),
    /// The value of a counter.
    Sum(i64),
    /// The right is not held under this fence any more.
    Lost,
    /// The right is held by another caller, until then by the store's clock.
    Held {
        /// Its fence, where it is known.
        fence: Option<u64>,
        /// Its deadline, where it is known.
        until: Option<i64>,
    },
    /// Something that no checker looks at.
    Other(String),
}

/// What is under a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// Nothing, or what was there is forgotten.
    Absent,
    /// It was deleted, or has expired, at this revision.
    Deleted(u64),
    /// A value.
    Live {
        /// The revision.
        revision: u64,
        /// The value.
        value: String,
        /// When it expires, by the store's clock.
        expires: Option<i64>,
    },
}

/// What was read of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRead {
    /// The events, in order.
    pub events: Vec<EventRef>,
    /// Whether the read reached the end.
    pub end: bool,
    /// The stream's version at the moment of the read, if it existed.
    pub version: Option<u64>,
    /// Whether it was closed.
    pub closed: bool,
}

/// An event, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EventRef {
    /// Its id.
    pub id: String,
    /// Its stream.
    pub stream: String,
    /// Its version.
    pub version: u64,
    /// Its position.
    pub position: u64,
}

/// A right that was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The right.
    pub right: String,
    /// The fence under which it is held.
    pub fence: u64,
    /// Since then at the latest, by the store's clock; the moment of the grant where it is known.
    pub since: i64,
    /// Until then, by the store's clock.
    pub until: i64,
}
