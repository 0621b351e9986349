//! The store held against everything that was said, across all processes.
//!
//! The audit is a function of the evidence and of nothing else, so that its tests can doctor the
//! evidence and see each kind of thing found. Every file here is one question.

mod claims;
mod closing;
mod commits;
mod endings;
mod leases;
mod log;
mod reactions;
mod runs;
mod scopes;
mod totals;
mod work;

#[cfg(test)]
mod doctored;

use std::collections::HashMap;

use tidelock::{EventId, StoredEvent};

use crate::evidence::Evidence;
use crate::finding::Finding;
use crate::ledger::Ledger;

/// What the questions are asked of.
struct Inquiry<'a> {
    evidence: &'a Evidence,
    ledger: &'a Ledger<'a>,
    /// The events that are there, by id.
    there: HashMap<EventId, &'a StoredEvent>,
}

/// Everything that must not be.
pub(crate) fn audit(evidence: &Evidence, ledger: &Ledger<'_>) -> Vec<Finding> {
    let there = evidence.feed.iter().map(|event| (event.id, event)).collect();
    let inquiry = Inquiry { evidence, ledger, there };
    let questions = [
        endings::ask,
        commits::ask,
        log::ask,
        totals::ask,
        leases::ask,
        work::ask,
        reactions::ask,
        runs::ask,
        scopes::ask,
        claims::ask,
        closing::ask,
    ]
    .map(|ask| ask(&inquiry));
    questions.into_iter().flatten().collect()
}
