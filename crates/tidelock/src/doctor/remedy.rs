//! Remedies: advice for a person, and actions that Tidelock can run.
//!
//! A [`RemedyAction`] is data: the command prints it as a command line, and the HTTP API offers it
//! as a request.

use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use tidelock_store::{Item, QueueName, StreamName};

use super::display::{length, quoted};
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
    /// Returns the shell command of an action on this store.
    pub fn command(&self, action: &RemedyAction) -> String {
        action.command_on(self.store.as_deref())
    }
}

impl RemedyAction {
    /// Returns the command for the default store.
    ///
    /// A word in capitals is a placeholder.
    pub fn command(&self) -> String {
        self.command_on(None)
    }

    /// Returns the command for the store at this URL.
    ///
    /// Secrets in the URL are left out and have to be given in another way (`PGPASSWORD`, a
    /// password file).
    pub fn command_on(&self, store: Option<&str>) -> String {
        let mut words = self.words();
        if let Some(store) = store.filter(|_| !matches!(self, Self::EndSession { .. })) {
            words.extend(["--store".to_owned(), without_secrets(store)]);
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    fn words(&self) -> Vec<String> {
        match self {
            Self::Unblock(work) => tidelock("unblock", work.words()),
            Self::Defer { work, wait } => {
                tidelock("defer", [vec![length(*wait)], work.words()].concat())
            }
            Self::Resume { run } => tidelock("resume", [run.as_str()]),
            Self::Cancel { run } => tidelock("cancel", [run.as_str()]),
            Self::Resolve { run, step } => {
                tidelock("resolve", [run.as_str(), step.as_str(), "--done", "RESULT"])
            }
            Self::Reroute { reaction, from_beginning } => {
                let from = if *from_beginning { "beginning" } else { "now" };
                tidelock("reroute", [reaction, "--from", from])
            }
            Self::Release { claim } => tidelock("release", [claim]),
            Self::Close { stream } => tidelock("close", [stream.as_str(), "--archive", "FILE"]),
            Self::EndSession { session } => {
                words(["psql", "-c", &format!("SELECT pg_terminate_backend({session})")])
            }
            Self::ShowEvent { position } => {
                let after = position.saturating_sub(1).to_string();
                tidelock("events", ["--after", &after, "--limit", "1"])
            }
            Self::RaiseScanLimit { scan } => tidelock("doctor", ["--scan", &scan.to_string()]),
            Self::RaiseRunLimit { runs } => tidelock("doctor", ["--runs", &runs.to_string()]),
        }
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

    fn words(&self) -> Vec<String> {
        match self {
            Self::Target { reaction, target } => {
                words(["--reaction", reaction, "--target", target])
            }
            Self::Item { queue, key } => words(["--queue", queue, "--key", key]),
            Self::Queue { queue } => words(["--queue", queue]),
        }
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

/// Removes the options whose values were redacted, so that the URL can be used.
fn without_secrets(url: &str) -> String {
    let Some((front, options)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<_> = options.split('&').filter(|option| !option.ends_with("=…")).collect();
    if kept.is_empty() { front.to_owned() } else { format!("{front}?{}", kept.join("&")) }
}

fn tidelock(verb: &str, more: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    words(["tidelock", verb]).into_iter().chain(more.into_iter().map(Into::into)).collect()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_its_work_and_can_be_copied() {
        let item = RemedyTask::Item { queue: "mail".to_owned(), key: "$(reboot)".to_owned() };
        assert_eq!(
            RemedyAction::Unblock(item.clone()).command(),
            "tidelock unblock --queue mail --key '$(reboot)'"
        );
        let defer = RemedyAction::Defer { work: item, wait: Duration::from_secs(3_600) };
        assert_eq!(defer.command(), "tidelock defer 1h --queue mail --key '$(reboot)'");
        assert_eq!(
            RemedyAction::EndSession { session: 7 }.command(),
            "psql -c 'SELECT pg_terminate_backend(7)'"
        );
    }

    /// CMD-2. A displayed URL has no password in it, and no command may contain its placeholder.
    #[test]
    fn a_command_names_its_store_without_secrets() {
        let further = |url: &str| {
            RemedyAction::RaiseScanLimit { scan: 9 }.command_on(Some(&crate::redacted_url(url)))
        };
        for (url, shown) in [
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("postgres://joe:hush@host/shop", "postgres://joe@host/shop"),
            ("postgres://host/shop?password=hush", "postgres://host/shop"),
            ("postgres://host/shop?password=hush&schema=s", "'postgres://host/shop?schema=s'"),
        ] {
            assert_eq!(further(url), format!("tidelock doctor --scan 9 --store {shown}"));
        }
        let session =
            RemedyAction::EndSession { session: 7 }.command_on(Some("postgres://host/shop"));
        assert!(!session.contains("--store"), "{session}");
    }
}
