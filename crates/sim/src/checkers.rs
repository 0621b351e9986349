//! Checkers: pure functions from a history, and from what a final read found, to violations.

use std::fmt;

use crate::history::{Audit, History};

/// Something that must not have happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// What kind of violation, in a few words: the name of the anomaly.
    pub anomaly: &'static str,
    /// What happened, for people.
    pub story: String,
}

/// The result of all checkers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Everything that was found.
    pub violations: Vec<Violation>,
    /// What could not be decided within the bounds.
    pub undecided: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Violation { anomaly, story } in &self.violations {
            writeln!(f, "{anomaly}: {story}")?;
        }
        self.undecided.iter().try_for_each(|what| writeln!(f, "undecided: {what}"))
    }
}

/// Runs every checker.
pub fn check(_history: &History, _audit: &Audit) -> Report {
    Report::default()
}
