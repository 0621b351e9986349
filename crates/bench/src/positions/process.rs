//! A writing process, as seen by the experiment.

use std::time::Duration;

use super::ground::Ground;
use super::scenario::Scenario;
use super::writer::Written;
use crate::child::Child;
use crate::failure::Failure;

/// What a process is to do.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) ground: &'a Ground,
    pub(super) scenario: &'a Scenario,
    /// Of the streams, if each caller has its own: no two tasks of a ground have the same.
    pub(super) name: String,
    pub(super) time: Duration,
    /// Stop after this many by each caller, if the time is not over before.
    pub(super) commits: Option<u64>,
}

/// A child that is connected and waits for its signal; killed if it is dropped before it has written.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start(task: &Task<'_>) -> Result<Self, Failure> {
        Child::start(&task.args(), &task.ground.url).map(Self)
    }

    /// Lets it go.
    pub(super) fn go(&mut self) -> Result<(), Failure> {
        self.0.tell("go")
    }

    /// Waits until it is done.
    pub(super) fn written(&mut self) -> Result<Written, Failure> {
        let line = self.0.hear()?;
        serde_json::from_str(&line)
            .map_err(|_| Failure::Answer(format!("a writing process ended in the middle: {line:?}")))
    }
}

impl Task<'_> {
    fn args(&self) -> Vec<String> {
        let mut args = vec!["position-writer".to_owned()];
        let mut give = |name: &str, value: String| args.extend([format!("--{name}"), value]);
        give("mechanism", self.ground.mechanism.name().to_owned());
        give("name", self.name.clone());
        give("callers", self.scenario.callers.to_string());
        give("connections", self.scenario.connections.to_string());
        give("seconds", self.time.as_secs_f64().to_string());
        if let Some(commits) = self.commits {
            give("commits", commits.to_string());
        }
        if let Some(streams) = self.scenario.shared {
            give("shared", streams.to_string());
        }
        if self.scenario.hasty {
            args.push("--hasty".to_owned());
        }
        args
    }
}
