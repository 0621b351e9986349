//! Remedies: advice for a person, and actions that Tidelock can run.
//!
//! A [`RemedyAction`] is data: the command prints it as a command line, and the HTTP API offers it
//! as a request.

mod command;

use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use tidelock_store::{Item, QueueName, StreamName};

use crate::reactions::TargetInfo;
use crate::runs::{RunId, StepName};

/// How to fix a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remedy {
    /// What to do, or to know, before acting.
    pub advice: Option<String>,
    /// Actions to choose from.
    pub actions: Vec<RemedyAction>,
    /// The redacted URL of the store for the commands, if the doctor knows it.
    pub store: Option<String>,
}

/// An action that an operator can run.
///
/// The set is closed on purpose: code that translates actions (to commands, requests, buttons) has
/// to handle each of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum RemedyAction {
    /// Unblocks items; they continue where they stopped.
    Unblock(RemedyTask),
    /// Delays work; a delay of zero retries it at once.
    Defer {
        /// The work to delay.
        #[serde(flatten)]
        work: RemedyTask,
        /// The delay.
        #[serde(rename = "wait_ms", serialize_with = "as_millis")]
        wait: Duration,
    },
    /// Resumes a parked run at once.
    Resume {
        /// The run.
        run: RunId,
    },
    /// Requests the cancellation of a run.
    Cancel {
        /// The run.
        run: RunId,
    },
    /// Records the outcome of a run's step. The operator finds out the outcome first.
    Resolve {
        /// The run.
        run: RunId,
        /// The step.
        step: StepName,
    },
    /// Routes a reaction's events again.
    Reroute {
        /// The reaction.
        reaction: String,
        /// From the first stored event; otherwise from the next new one.
        from_beginning: bool,
    },
    /// Releases a claim whose claimant is gone.
    Release {
        /// The claim's full key.
        claim: String,
    },
    /// Closes a stream for good and archives its events.
    Close {
        /// The stream.
        stream: StreamName,
    },
    /// Terminates a database session, and with it the transaction that blocks others.
    EndSession {
        /// The session's process id, as for `pg_terminate_backend`.
        session: i32,
    },
    /// Shows the event at a position.
    ShowEvent {
        /// The position.
        position: u64,
    },
    /// Runs the doctor with a higher limit of work items.
    RaiseScanLimit {
        /// The new limit.
        scan: usize,
    },
    /// Runs the doctor with a higher limit of open runs.
    RaiseRunLimit {
        /// The new limit.
        runs: usize,
    },
}

/// The work that an action applies to.
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
    /// One item of a queue.
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

/// An action with its shell command.
#[derive(Serialize)]
struct Offered<'a> {
    #[serde(flatten)]
    action: &'a RemedyAction,
    command: String,
}

impl Remedy {
    /// A remedy without actions.
    pub(super) fn advice(advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..Self::default() }
    }

    /// Returns the shell command of an action on this store.
    pub fn command(&self, action: &RemedyAction) -> String {
        action.command_on(self.store.as_deref())
    }

    /// Adds an action.
    pub(super) fn then(mut self, action: RemedyAction) -> Self {
        self.actions.push(action);
        self
    }
}

impl RemedyAction {
    /// Unblocks `item`.
    pub(super) fn unblock(item: &Item) -> Self {
        Self::Unblock(RemedyTask::of(item))
    }
}

impl RemedyTask {
    /// Only this item.
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
        let mut remedy = to.serialize_struct("Remedy", 2)?;
        remedy.serialize_field("advice", &self.advice)?;
        remedy.serialize_field("actions", &actions)?;
        remedy.end()
    }
}

fn as_millis<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
