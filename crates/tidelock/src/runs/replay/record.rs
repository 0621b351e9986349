//! What is recorded under one name.

use std::fmt;

use tidelock_store::{RawJson, Timestamp};

use crate::runs::history::{Interruptible, RunOutcome, StepFailed};
use crate::runs::names::StepName;

/// What kind of operation a name stands for.
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
    /// A step, for good.
    Failed(StepFailed),
    /// A sleep is over.
    Fired,
    /// A wait: this signal came.
    Received(String),
    /// A wait: nothing came in time.
    TimedOut,
    /// A child has ended.
    Child(RunOutcome),
    /// Cut short, because the run is to cancel.
    Interrupted,
}

/// What is recorded under a name.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) name: StepName,
    pub(crate) kind: Kind,
    pub(crate) end: Option<End>,
    /// Attempts of a step that failed, and when the next is due.
    pub(crate) attempts: u32,
    pub(crate) again_at: Option<Timestamp>,
    /// A step that must not be done twice was begun.
    pub(crate) intent: bool,
    /// And an operator is asked what became of it.
    pub(crate) ambiguous: bool,
    /// When a sleep or a wait is over.
    pub(crate) until: Option<Timestamp>,
    /// What a wait is for.
    pub(crate) signal: Option<String>,
    /// It was let go of: nobody will ask for its end.
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
            ambiguous: false,
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
