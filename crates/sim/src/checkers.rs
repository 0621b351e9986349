//! Checkers: pure functions from a history, and from what a final read found, to violations.
//!
//! Each file checks one family of guarantees, and states its cost. All of them together read a
//! history of 100,000 operations in a few seconds. A violation is explained by the operations that
//! show it; what a bound keeps from being decided is reported as such, never as correct.

mod accounts;
mod cases;
mod cycles;
mod feed;
mod holders;
mod linearizable;
mod numbers;
mod objects;
mod quotas;
mod rest;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use crate::history::{Audit, History};
use cases::Case;

pub use linearizable::MAX_CONFIGURATIONS;

/// Every kind of violation. Each has tests with at least two histories that show it.
pub const ANOMALIES: [&str; 41] = [
    // Commits and their answers.
    "contradiction",
    "half a commit",
    "refused though it holds",
    // Single objects.
    "not linearizable",
    "number reused",
    "event in two places",
    "gap in a stream",
    // Transactions.
    "G0",
    "G1a",
    "G1b",
    "G1c",
    "G-single",
    "G2",
    "G0-realtime",
    "G1c-realtime",
    "G-single-realtime",
    "G2-realtime",
    "lost update",
    // The feed.
    "feed out of order",
    "event twice in the feed",
    "follower skips",
    "followers disagree",
    "written though refused",
    "lost event",
    "unexplained event",
    "position in the past",
    // Holders.
    "two holders",
    "stale write",
    "quota exceeded",
    // Accounts.
    "effect under two keys",
    "landed twice",
    "done again",
    "not handled",
    "handled for nothing",
    "handled out of order",
    "wrong number of effects",
    "ended twice",
    "lost effect",
    "two results",
    // The end.
    "unbounded growth",
    "not finished",
];

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

impl Report {
    fn add(&mut self, anomaly: &'static str, story: String) {
        debug_assert!(ANOMALIES.contains(&anomaly), "{anomaly:?} is in the list");
        self.violations.push(Violation { anomaly, story });
    }

    /// The kinds of violations that were found.
    pub fn anomalies(&self) -> BTreeSet<&'static str> {
        self.violations.iter().map(|violation| violation.anomaly).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Violation { anomaly, story } in &self.violations {
            writeln!(f, "{anomaly}: {story}")?;
        }
        self.undecided.iter().try_for_each(|what| writeln!(f, "undecided: {what}"))
    }
}

/// The input of the checkers.
struct Inquiry<'a> {
    history: &'a History,
    audit: &'a Audit,
    cases: Vec<Case<'a>>,
}

type Checker = fn(&Inquiry<'_>, &mut Report);

/// Every checker, by the name of its family.
const CHECKERS: [(&str, Checker); 8] = [
    ("numbers", numbers::check),
    ("objects", objects::check),
    ("cycles", cycles::check),
    ("feed", feed::check),
    ("holders", holders::check),
    ("accounts", accounts::check),
    ("quotas", quotas::check),
    ("rest", rest::check),
];

/// Runs every checker. The history must be [sorted](History::sort).
pub fn check(history: &History, audit: &Audit) -> Report {
    check_with(history, audit, |_| true)
}

/// Runs the checkers whose names pass.
pub fn check_with(history: &History, audit: &Audit, runs: impl Fn(&str) -> bool) -> Report {
    let mut report = Report::default();
    let cases = cases::collect(history, audit, &mut report);
    let inquiry = Inquiry { history, audit, cases };
    for (_, checker) in CHECKERS.iter().filter(|(name, _)| runs(name)) {
        checker(&inquiry, &mut report);
    }
    report
}
