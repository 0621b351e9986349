//! Validated names of runs, workflows, schedules, signals and steps.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

/// The maximum length of a run id, in bytes; leaves room in the names derived from it.
const RUN_ID_BYTES: usize = 200;
/// The maximum length of a workflow's name, in bytes.
const WORKFLOW_NAME_BYTES: usize = 64;
/// The maximum length of a schedule's name, in bytes; the ids of its runs add a time.
const SCHEDULE_NAME_BYTES: usize = 100;
/// The maximum length of a signal's name, in bytes.
const SIGNAL_NAME_BYTES: usize = 100;
/// The maximum length of the name of a step, a sleep, a wait, a child or a value, in bytes.
const STEP_NAME_BYTES: usize = 100;

/// A name that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// A run id.
    #[error(
        "run id {0:?}: it has 1 to {RUN_ID_BYTES} bytes, does not begin with ~, and has no control character in it"
    )]
    Run(String),
    /// A workflow's name.
    #[error(
        "workflow {0:?}: a name has 1 to {WORKFLOW_NAME_BYTES} bytes, does not begin with ~, and has no /, @, *, ? or control \
         character in it"
    )]
    Workflow(String),
    /// A schedule's name.
    #[error(
        "schedule {0:?}: a name has 1 to {SCHEDULE_NAME_BYTES} bytes, does not begin with ~, and has no control character in it"
    )]
    Schedule(String),
    /// A signal's name.
    #[error(
        "signal {0:?}: a name has 1 to {SIGNAL_NAME_BYTES} bytes, does not begin with ~, and has no control character in it"
    )]
    Signal(String),
    /// A step's name.
    #[error(
        "step {0:?}: a name has 1 to {STEP_NAME_BYTES} bytes, and has no :, #, ~ or control character in it, so that the key \
         run:step can belong to no other"
    )]
    Step(String),
}

/// Whether a name has 1 to `limit` bytes, does not begin with `~`, and has neither a control
/// character nor one of these (ASCII) in it.
const fn is_valid(name: &str, limit: usize, reserved: &[u8]) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > limit || bytes[0] == b'~' {
        return false;
    }
    let mut at = 0;
    while at < bytes.len() {
        // The control characters U+0080 to U+009F are C2 80 to C2 9F in UTF-8.
        let is_late_control =
            bytes[at] == 0xc2 && at + 1 < bytes.len() && matches!(bytes[at + 1], 0x80..=0x9f);
        if bytes[at].is_ascii_control() || is_late_control || contains(reserved, bytes[at]) {
            return false;
        }
        at += 1;
    }
    true
}

const fn contains(bytes: &[u8], byte: u8) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

/// Whether this can be the name of a workflow.
pub(super) const fn is_workflow_name(name: &str) -> bool {
    is_valid(name, WORKFLOW_NAME_BYTES, WORKFLOW_RESERVED)
}

/// What a workflow's name has not in it: it is part of a queue's name and of patterns.
const WORKFLOW_RESERVED: &[u8] = b"/@*?";

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $problem:ident, $limit:ident, $reserved:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates the name.
            ///
            /// # Errors
            /// Returns an error that states the rules, if it is not valid.
            pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidName> {
                let name = name.as_ref();
                match is_valid(name, $limit, $reserved) {
                    true => Ok(Self(name.into())),
                    false => Err(InvalidName::$problem(name.chars().take($limit).collect())),
                }
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                Ok(Self(text.into()))
            }
        }
    };
}

name!(
    /// The id of a run, chosen by the caller. Starting is idempotent by it.
    RunId, Run, RUN_ID_BYTES, b""
);
name!(
    /// The name of a workflow. It identifies the workflow in the store: another name is another
    /// workflow.
    WorkflowName, Workflow, WORKFLOW_NAME_BYTES, WORKFLOW_RESERVED
);
name!(
    /// The name of a schedule.
    ScheduleName, Schedule, SCHEDULE_NAME_BYTES, b""
);
name!(
    /// The name of a signal.
    SignalName, Signal, SIGNAL_NAME_BYTES, b""
);
name!(
    /// The name of a step, and of every other operation that a run records.
    StepName, Step, STEP_NAME_BYTES, b":#~"
);

/// The version of a workflow that a run follows: decided when it starts, and never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkflowVersion(pub u32);

impl WorkflowVersion {
    /// The default version of a workflow.
    pub const FIRST: Self = Self(1);
}

impl fmt::Display for WorkflowVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl RunId {
    /// An id from the store, which is valid.
    pub(crate) fn stored(id: &str) -> Self {
        Self(id.into())
    }

    /// The id of the child with this name. In a later generation the name gives another id.
    pub(crate) fn child(&self, name: &StepName, generation: u32) -> Result<Self, InvalidName> {
        match generation {
            1 => Self::new(format!("{self}/{name}")),
            later => Self::new(format!("{self}/{name}#{later}")),
        }
    }
}

impl StepName {
    /// The name of a step's compensation, which users cannot choose.
    pub(crate) fn compensation(&self) -> Self {
        Self(format!("{self}~compensation").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_must_be_like() {
        assert_eq!(RunId::new("order:7/ü #").unwrap().as_str(), "order:7/ü #");
        for odd in ["", "~run", "a\nb", &"x".repeat(201)] {
            assert!(RunId::new(odd).unwrap_err().to_string().contains("1 to 200 bytes"));
        }
        for control in ["a\u{80}b", "a\u{9f}", "\u{7f}", "a\0"] {
            assert!(SignalName::new(control).is_err(), "{control:?}");
        }
        for fine in ["\u{a0}a", "Â", "über-fähre"] {
            assert!(SignalName::new(fine).is_ok(), "{fine:?}");
        }
        assert!(WorkflowName::new("check@out").unwrap_err().to_string().contains("check@out"));
        assert!(StepName::new("a:b").unwrap_err().to_string().contains("run:step"));
    }

    #[test]
    fn children_of_two_generations_are_two() {
        let (run, name) = (RunId::new("order-7").unwrap(), StepName::new("bill").unwrap());
        assert_eq!(run.child(&name, 1).unwrap().as_str(), "order-7/bill");
        assert_eq!(run.child(&name, 2).unwrap().as_str(), "order-7/bill#2");
    }
}
