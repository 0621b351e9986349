//! What mends a finding: something that people have to do or know, and something that Tidelock can
//! do for them.
//!
//! An [`Action`] is data, so that one reader can print it as a command and another can send it as a
//! request.

mod command;

use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use tidelock_store::{Item, QueueName, StreamName};

use crate::reactions::TargetInfo;
use crate::runs::{RunId, StepName};

/// What mends it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remedy {
    /// What people have to do, or to know, before they act.
    pub advice: Option<String>,
    /// What can then be done; where there are several, one of them.
    pub actions: Vec<RemedyAction>,
    /// The URL of the store that commands name, as it may be shown; none if the doctor does not
    /// know it.
    pub store: Option<String>,
}

/// Something that an operator can have done.
///
/// Whoever turns these into something else (commands, requests, buttons) has to say of each what
/// becomes of it; so there are these and no others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum RemedyAction {
    /// Lets what is blocked go on where it stopped.
    Unblock(RemedyTask),
    /// Keeps work from being done for so long; with zero, lets it be tried at once.
    Defer {
        /// Which.
        #[serde(flatten)]
        work: RemedyTask,
        /// For how long.
        #[serde(rename = "wait_ms", serialize_with = "as_millis")]
        wait: Duration,
    },
    /// Lets a parked run go on at once.
    Resume {
        /// The run.
        run: RunId,
    },
    /// Asks a run to cancel.
    Cancel {
        /// The run.
        run: RunId,
    },
    /// Says what became of a step of a run; what, has to be found out first.
    Resolve {
        /// The run.
        run: RunId,
        /// The step.
        step: StepName,
    },
    /// Routes a reaction's events anew.
    Reroute {
        /// The reaction.
        reaction: String,
        /// From the first event there is; else from the next that comes.
        from_beginning: bool,
    },
    /// Frees a claim whose claimant is gone.
    Release {
        /// The claim, by its whole name.
        claim: String,
    },
    /// Closes a stream for good, with its events in an archive.
    Close {
        /// The stream.
        stream: StreamName,
    },
    /// Ends a session of the database, and with it the transaction that others wait for.
    EndSession {
        /// As `pg_terminate_backend` knows it.
        session: i32,
    },
    /// Looks at the event at a position.
    LookAtEvent {
        /// The position.
        position: u64,
    },
    /// Has the doctor look at more work items.
    LookFurther {
        /// At how many.
        scan: usize,
    },
    /// Has the doctor look at more open runs.
    LookAtMoreRuns {
        /// At how many.
        runs: usize,
    },
}

/// Work that something can be done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RemedyTask {
    /// A target of a reaction.
    Target {
        /// The reaction.
        reaction: String,
        /// The target.
        target: String,
    },
    /// An item of a queue.
    Item {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
    },
    /// All items of a queue.
    Queue {
        /// The queue.
        queue: String,
    },
}

/// An action, and how to have it done in a shell.
#[derive(Serialize)]
struct Offered<'a> {
    #[serde(flatten)]
    action: &'a RemedyAction,
    command: String,
}

impl Remedy {
    /// This is all there is to do.
    pub(super) fn advice(advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..Self::default() }
    }

    /// How to have an action done in a shell, to this store.
    pub fn command(&self, action: &RemedyAction) -> String {
        action.command_on(self.store.as_deref())
    }

    /// The same, with something that can be done.
    pub(super) fn then(mut self, action: RemedyAction) -> Self {
        self.actions.push(action);
        self
    }
}

impl RemedyAction {
    /// Lets a blocked item go on.
    pub(super) fn unblock(item: &Item) -> Self {
        Self::Unblock(RemedyTask::of(item))
    }
}

impl RemedyTask {
    /// This item and no other.
    pub(super) fn of(item: &Item) -> Self {
        match TargetInfo::of(item.clone()) {
            Some(target) => Self::Target { reaction: target.reaction, target: target.target },
            None => {
                Self::Item { queue: item.item.queue.to_string(), key: item.item.key.to_string() }
            }
        }
    }

    /// All items of this queue.
    pub(super) fn all_of(queue: &QueueName) -> Self {
        Self::Queue { queue: queue.to_string() }
    }
}

impl Serialize for Remedy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let offered = |action| Offered { action, command: self.command(action) };
        let actions: Vec<_> = self.actions.iter().map(offered).collect();
        let mut cure = to.serialize_struct("Cure", 2)?;
        cure.serialize_field("advice", &self.advice)?;
        cure.serialize_field("actions", &actions)?;
        cure.end()
    }
}

fn as_millis<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
