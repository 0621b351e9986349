//! One operation of a run: what is recorded of it, and its phase in this activation.

use std::fmt;

use tidelock_store::{RawJson, Timestamp};

use crate::runs::history::{Entry, Interruptible, RunOutcome, StepFailed};
use crate::runs::names::StepName;

/// The index of an operation.
pub(crate) type OpId = usize;

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

/// The phase of an operation in this activation. `transition.rs` has the legal changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Recorded without an end, and not requested yet.
    PastOpen,
    /// Recorded with its end, and not requested yet.
    PastEnded,
    /// Recorded as dropped, and not requested yet.
    PastDropped,
    /// Requested; nothing is recorded.
    New,
    /// Requested; something is recorded, but no end.
    Open,
    /// An entry with staged writes waits to be committed.
    Staged {
        /// Whether something was recorded before.
        was_open: bool,
    },
    /// The end is queued as the entry of this number.
    Ending(u64),
    /// The end is known, and can be delivered when it is next in the order.
    Ended,
    /// The end was next, and the function did not poll it: it can be delivered at any time.
    PassedOver,
    /// The function has the result.
    Delivered,
    /// The function dropped it after something was recorded.
    Abandoned,
    /// Requested in this activation, and dropped in an earlier one.
    Orphan,
    /// Dropped before anything was recorded, or forgotten by a retry: its name is free.
    Removed,
}

impl Phase {
    /// Whether the function has requested it.
    pub(super) fn is_requested(self) -> bool {
        !matches!(self, Self::PastOpen | Self::PastEnded | Self::PastDropped)
    }

    /// Whether replay does not wait for it.
    pub(super) fn is_excused(self) -> bool {
        matches!(self, Self::PastDropped | Self::Abandoned | Self::Orphan | Self::Removed)
    }
}

/// What is recorded of an operation before its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The failed attempts of a step, and when the next is due.
    pub(crate) attempts: u32,
    pub(crate) again_at: Option<Timestamp>,
    /// When its first attempt failed.
    pub(crate) failing_since: Option<Timestamp>,
    /// An at-most-once step was started.
    pub(crate) intent: bool,
    /// Its outcome is unknown, and it waits for a verdict.
    pub(crate) unknown_outcome: bool,
    /// When a sleep or a wait ends.
    pub(crate) until: Option<Timestamp>,
    /// The signal of a wait.
    pub(crate) signal: Option<String>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) name: StepName,
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    pub(super) progress: Progress,
    pub(super) end: Option<End>,
    /// The place of its end in the order.
    pub(super) end_mark: Option<usize>,
}

impl Operation {
    pub(super) fn new(name: &StepName, kind: Kind, phase: Phase) -> Self {
        let (name, progress) = (name.clone(), Progress::default());
        Self { name, kind, phase, progress, end: None, end_mark: None }
    }

    /// Describes it in errors.
    pub(super) fn describe(&self) -> String {
        describe(self.kind, &self.name)
    }

    /// Applies an entry about it that is not its end.
    pub(super) fn progress(&mut self, entry: &Entry) {
        let progress = &mut self.progress;
        match entry {
            Entry::AttemptFailed(e) => {
                (progress.attempts, progress.again_at, progress.intent) =
                    (e.attempt, Some(e.again_at), false);
                progress.failing_since = progress.failing_since.or(e.failed_at);
            }
            Entry::Intent(_) => (progress.intent, progress.unknown_outcome) = (true, false),
            Entry::UnknownOutcome(_) => progress.unknown_outcome = true,
            Entry::Timer(e) => progress.until = Some(e.until),
            Entry::Waiting(e) => {
                (progress.until, progress.signal) = (e.until, Some(e.signal.clone()));
            }
            _ => {}
        }
    }
}

/// An operation in an error.
pub(super) fn describe(kind: Kind, name: &StepName) -> String {
    format!("{kind} {:?}", name.as_str())
}

/// The operation that an entry is about, and its end if the entry is one.
pub(super) fn operation_of(entry: &Entry) -> Option<(&StepName, Kind, Option<End>)> {
    Some(match entry {
        Entry::StepDone(e) => (&e.name, Kind::Step, Some(End::Done(e.result.clone()))),
        Entry::StepFailed(e) => (&e.name, Kind::Step, Some(End::Failed(e.clone()))),
        Entry::AttemptFailed(e) => (&e.name, Kind::Step, None),
        Entry::Intent(e) => (&e.name, Kind::Step, None),
        Entry::UnknownOutcome(e) => (&e.name, Kind::Step, None),
        Entry::Timer(e) => (&e.name, Kind::Sleep, None),
        Entry::Fired(e) => (&e.name, Kind::Sleep, Some(End::Fired)),
        Entry::Waiting(e) => (&e.name, Kind::Wait, None),
        Entry::Received(e) => (&e.name, Kind::Wait, Some(End::Received(e.id.clone()))),
        Entry::TimedOut(e) => (&e.name, Kind::Wait, Some(End::TimedOut)),
        Entry::ChildStarted(e) => (&e.name, Kind::Child, None),
        Entry::ChildEnded(e) => (&e.name, Kind::Child, Some(End::Child(e.outcome.clone()))),
        Entry::Value(e) => (&e.name, Kind::Value, Some(End::Done(e.value.clone()))),
        Entry::Published(e) => (&e.name, Kind::Status, Some(End::Done(e.status.clone()))),
        Entry::Interrupted(e) => (&e.name, e.kind.into(), Some(End::Interrupted)),
        _ => return None,
    })
}
