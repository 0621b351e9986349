//! The names of runs, workflows and steps, checked when they are made.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

/// Bytes in the id of a run; streams, records and items that are named after it leave this much
/// room.
const RUN_ID_BYTES: usize = 200;
/// Bytes in a workflow's name.
const WORKFLOW_NAME_BYTES: usize = 64;
/// Bytes in a schedule's name; the ids of its runs are longer by a moment.
const SCHEDULE_NAME_BYTES: usize = 100;
/// Bytes in a signal's name.
const SIGNAL_NAME_BYTES: usize = 100;
/// Bytes in the name of a step, a sleep, a wait, a child or a value.
const STEP_NAME_BYTES: usize = 100;

/// A name that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// Of a run.
    #[error(
        "run id {0:?}: it has 1 to {RUN_ID_BYTES} bytes, does not begin with ~, and has no control character in it"
    )]
    Run(String),
    /// Of a workflow.
    #[error(
        "workflow {0:?}: a name has 1 to {WORKFLOW_NAME_BYTES} bytes, does not begin with ~, and has no /, @, *, ? or control \
         character in it"
    )]
    Workflow(String),
    /// Of a schedule.
    #[error(
        "schedule {0:?}: a name has 1 to {SCHEDULE_NAME_BYTES} bytes, does not begin with ~, and has no control character in it"
    )]
    Schedule(String),
    /// Of a signal.
    #[error(
        "signal {0:?}: a name has 1 to {SIGNAL_NAME_BYTES} bytes, does not begin with ~, and has no control character in it"
    )]
    Signal(String),
    /// Of a step.
    #[error(
        "step {0:?}: a name has 1 to {STEP_NAME_BYTES} bytes, and has no :, #, ~ or control character in it, so that the key \
         run:step can belong to no other"
    )]
    Step(String),
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $problem:ident, $limit:ident, $odd:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and makes the name.
            ///
            /// # Errors
            /// If it cannot be one; the error says what can.
            pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidName> {
                let name = name.as_ref();
                let odd: fn(char) -> bool = $odd;
                let bad = |c: char| c.is_control() || odd(c);
                if name.is_empty() || name.len() > $limit || name.starts_with('~') || name.contains(bad) {
                    return Err(InvalidName::$problem(name.chars().take($limit).collect()));
                }
                Ok(Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
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
    /// The id of a run: whatever its starter calls it. Starting is idempotent by it.
    RunId, Run, RUN_ID_BYTES, |_| false
);
name!(
    /// The name of a workflow. It is in the store: a workflow under another name is another
    /// workflow.
    WorkflowName, Workflow, WORKFLOW_NAME_BYTES, |c| matches!(c, '/' | '@' | '*' | '?')
);
name!(
    /// The name of a schedule.
    ScheduleName, Schedule, SCHEDULE_NAME_BYTES, |_| false
);
name!(
    /// The name of a signal.
    SignalName, Signal, SIGNAL_NAME_BYTES, |_| false
);
name!(
    /// The name of a step, and of everything else that a run records.
    StepName, Step, STEP_NAME_BYTES, |c| matches!(c, ':' | '#' | '~')
);

/// Which code of a workflow a run follows: decided when it starts, and for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkflowVersion(pub u32);

impl WorkflowVersion {
    /// The version of a workflow that says nothing about versions.
    pub const FIRST: Self = Self(1);
}

impl fmt::Display for WorkflowVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl RunId {
    /// An id that is in the store, and so was checked.
    pub(crate) fn stored(id: &str) -> Self {
        Self(id.into())
    }

    /// The run that a run starts as its child under this name. In a later generation the name means
    /// another child.
    pub(crate) fn child(&self, name: &StepName, generation: u32) -> Result<Self, InvalidName> {
        match generation {
            1 => Self::new(format!("{self}/{name}")),
            later => Self::new(format!("{self}/{name}#{later}")),
        }
    }
}

impl StepName {
    /// The clean-up of a step; no user can name a step so.
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
