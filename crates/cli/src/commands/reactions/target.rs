//! A target of a reaction, as a row.

use serde::Serialize;
use tidelock::Timestamp;
use tidelock::reactions::TargetInfo;

use crate::output::{TableRow, ago, ahead, cut};

/// The length at which an error is truncated, unless shown in full.
const ERROR: usize = 60;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    target: TargetInfo,
    lag: u64,
    #[serde(skip)]
    now: Timestamp,
    #[serde(skip)]
    full: bool,
}

impl Row {
    pub(super) fn new(target: TargetInfo, now: Timestamp, full: bool) -> Self {
        Self { lag: target.lag(), target, now, full }
    }

    /// Its state, and what it waits for.
    fn doing(&self) -> String {
        let (target, now) = (&self.target, self.now);
        let held =
            target.holder.as_ref().map(|holder| format!("held, {}", ahead(holder.deadline, now)));
        let waits = target
            .hold
            .filter(|hold| *hold > now)
            .map(|hold| format!("again {}", ahead(hold, now)));
        let due = target.due.map(|due| format!("due, {}", ago(due, now)));
        match (target.blocked, target.unrouted) {
            (true, true) => "blocked, unrouted".to_owned(),
            (true, false) => "blocked".to_owned(),
            (false, _) => held.or(waits).or(due).unwrap_or_else(|| "idle".to_owned()),
        }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["reaction", "target", "at", "lag", "state", "failures", "expiries", "holder", "error"];

    fn cells(&self) -> Vec<String> {
        let target = &self.target;
        let error = target.error.as_deref().unwrap_or_default();
        vec![
            target.reaction.clone(),
            target.target.clone(),
            target.at.to_string(),
            self.lag.to_string(),
            self.doing(),
            target.failures.to_string(),
            target.expiries.to_string(),
            target.holder.as_ref().map_or_else(String::new, |holder| holder.worker.to_string()),
            if self.full { error.to_owned() } else { cut(error, ERROR).into_owned() },
        ]
    }
}
