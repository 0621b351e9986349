//! Remarks: what happened besides calls of the store, such as effects of handlers and steps.

use serde::{Deserialize, Serialize};

use super::{Client, Moment};

/// Something that happened at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// Where it happened.
    pub client: Client,
    /// When.
    pub moment: Moment,
    /// What.
    pub note: Note,
}

/// What a remark is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A handler of a reaction works on an event.
    Reaction {
        /// The reaction.
        reaction: String,
        /// Its target.
        target: String,
        /// How often the target was reset before.
        rebuild: u64,
        /// The id of the event.
        event: String,
        /// The fence of the target's lease, where it is known.
        fence: Option<u64>,
        /// How far it is.
        phase: Phase,
    },
    /// A run works on a step.
    Step {
        /// The run, with its generation.
        run: String,
        /// The step.
        step: String,
        /// What is promised of its effect.
        promise: StepPromise,
        /// The fence of the run's lease, where it is known.
        fence: Option<u64>,
        /// How far it is.
        phase: Phase,
    },
    /// A caller learned how a run ended.
    RunEnded {
        /// The run.
        run: String,
        /// Its result, or how else it ended.
        result: String,
    },
    /// A job of a queue, or anything else of which one effect is expected, took effect.
    Effect {
        /// What was done.
        what: String,
        /// Its key.
        key: String,
    },
    /// The store began an epoch: numbers may jump.
    Epoch,
    /// A process began, died, paused or continued; for people who read the history.
    Process(String),
    /// The last fault is over.
    Calm,
}

/// How far a handler or a step is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It begins.
    Started,
    /// It had an effect outside the store, under this key.
    Effect(String),
    /// Its commit was acknowledged: the event is acked, the step recorded.
    Landed,
}

/// What is promised of the effect of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPromise {
    /// At least once, under one key.
    AtLeastOnce,
    /// At most once.
    AtMostOnce,
    /// Exactly once: in the commit of its record.
    ExactlyOnce,
}
