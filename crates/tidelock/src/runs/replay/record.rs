//! The recorded state of one operation.

use std::fmt;

use tidelock_store::{RawJson, Timestamp};

use crate::runs::history::{Interruptible, RunOutcome, StepFailed};
use crate::runs::names::StepName;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Step,
    Sleep,
    Wait,
    Child,
    Value,
    Status,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Step => "step",
            Self::Sleep => "sleep",
            Self::Wait => "wait",
            Self::Child => "child",
            Self::Value => "value",
            Self::Status => "status",
        })
    }
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// A step or a value, with this result.
    Done(RawJson),
    /// A step failed for good.
    Failed(StepFailed),
    /// A sleep ended.
    Fired,
    /// A wait received this signal.
    Received(String),
    /// A wait timed out.
    TimedOut,
    /// A child ended.
    Child(RunOutcome),
    /// Cancelled.
    Interrupted,
}

/// The recorded state of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) name: StepName,
    pub(crate) kind: Kind,
    pub(crate) end: Option<End>,
    /// The failed attempts of a step, and when the next is due.
    pub(crate) attempts: u32,
    pub(crate) again_at: Option<Timestamp>,
    /// An at-most-once step was started.
    pub(crate) intent: bool,
    /// Its outcome is unknown, and it waits for a verdict.
    pub(crate) unknown_outcome: bool,
    /// When a sleep or a wait ends.
    pub(crate) until: Option<Timestamp>,
    /// The signal of a wait.
    pub(crate) signal: Option<String>,
    /// It was dropped: its end is never requested.
    pub(crate) dropped: bool,
}

impl Record {
    pub(crate) fn new(name: &StepName, kind: Kind) -> Self {
        Self {
            name: name.clone(),
            kind,
            end: None,
            attempts: 0,
            again_at: None,
            intent: false,
            unknown_outcome: false,
            until: None,
            signal: None,
            dropped: false,
        }
    }
}

impl From<Interruptible> for Kind {
    fn from(kind: Interruptible) -> Self {
        match kind {
            Interruptible::Step => Self::Step,
            Interruptible::Sleep => Self::Sleep,
            Interruptible::Wait => Self::Wait,
            Interruptible::Child => Self::Child,
        }
    }
}
