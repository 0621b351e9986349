//! The subject of a finding, with the name that operators know.

use std::fmt;

use serde::{Serialize, Serializer};
use tidelock_store::{Item, ItemRef, Mark, QueueName, RecordKey, StreamName, WorkerName};

use crate::reactions::TargetInfo;
use crate::runs::{RunId, WorkflowVersion, run_of};

/// The subject of a finding. Displayed and serialized as a short phrase: `reaction "mail", target
/// "order-1"`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The store, by its display name or its kind.
    Store(String),
    /// All commits.
    Commits,
    /// The feed of all streams.
    Feed,
    /// All work items.
    WorkItems,
    /// All runs.
    Runs,
    /// All schedules.
    Schedules,
    /// All closings of streams.
    Closings,
    /// All claims.
    Claims,
    /// A claim, by its full key.
    Claim(String),
    /// A stream.
    Stream(StreamName),
    /// A record.
    Record(RecordKey),
    /// A scope, by its kind and id.
    Scope(String),
    /// A worker.
    Worker(WorkerName),
    /// A queue.
    Queue(QueueName),
    /// An item of a queue.
    Item(ItemRef),
    /// A reaction.
    Reaction(String),
    /// A target of a reaction.
    Target {
        /// The reaction.
        reaction: String,
        /// The target.
        target: String,
    },
    /// An event without a route to a target of a reaction.
    Event {
        /// The reaction.
        reaction: String,
        /// The event's position.
        position: Mark,
    },
    /// A version of a workflow.
    Workflow(String, WorkflowVersion),
    /// A run.
    Run(RunId),
}

impl Subject {
    /// The subject that an item belongs to.
    pub(super) fn of(item: &Item) -> Self {
        match (TargetInfo::of(item.clone()), run_of(&item.item)) {
            (Some(target), _) => Self::Target { reaction: target.reaction, target: target.target },
            (None, Some(run)) => Self::Run(run),
            (None, None) => Self::Item(item.item.clone()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(name) => f.write_str(name),
            Self::Commits => f.write_str("commits"),
            Self::Feed => f.write_str("the feed"),
            Self::WorkItems => f.write_str("work items"),
            Self::Runs => f.write_str("runs"),
            Self::Schedules => f.write_str("schedules"),
            Self::Closings => f.write_str("closings"),
            Self::Claims => f.write_str("claims"),
            Self::Claim(claim) => write!(f, "claim {claim:?}"),
            Self::Stream(stream) => write!(f, "stream {stream:?}"),
            Self::Record(record) => write!(f, "record {:?}", record.as_str()),
            Self::Scope(scope) => write!(f, "scope {scope:?}"),
            Self::Worker(worker) => write!(f, "worker {:?}", worker.as_str()),
            Self::Queue(queue) => write!(f, "queue {queue:?}"),
            Self::Item(item) => write!(f, "{item}"),
            Self::Reaction(reaction) => write!(f, "reaction {reaction:?}"),
            Self::Target { reaction, target } => {
                write!(f, "reaction {reaction:?}, target {target:?}")
            }
            Self::Event { reaction, position } => {
                write!(f, "reaction {reaction:?}, event at position {position}")
            }
            Self::Workflow(workflow, version) => {
                write!(f, "workflow {workflow:?}, version {version}")
            }
            Self::Run(run) => write!(f, "run {:?}", run.as_str()),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
