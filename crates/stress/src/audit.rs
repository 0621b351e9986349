//! Compares the store with the journals of all processes.
//!
//! The audit is a pure function of the evidence, so that its tests can corrupt the evidence and
//! check that each kind of finding is reported. Every file here checks one question.

mod claims;
mod closing;
mod commits;
mod endings;
mod history;
mod leases;
mod log;
mod reactions;
mod runs;
mod scopes;
mod totals;
mod work;

#[cfg(test)]
mod corrupted;

use std::collections::HashMap;

use tidelock::store::{EventId, StoredEvent};

use crate::evidence::Evidence;
use crate::finding::Finding;
use crate::ledger::Ledger;

/// The input of the checks.
struct Inquiry<'a> {
    evidence: &'a Evidence,
    ledger: &'a Ledger<'a>,
    /// The events in the store, by id.
    there: HashMap<EventId, &'a StoredEvent>,
}

/// Returns every violation.
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
        history::ask,
    ]
    .map(|ask| ask(&inquiry));
    questions.into_iter().flatten().collect()
}
