//! What is left at the end: bounded growth and liveness, as predicates over the final state.
//!
//! The caller that gathers the final state decides what could have finished: after the last fault,
//! once everything had the time that it may take.

use super::{Inquiry, Report};

/// Checks that nothing is left that should not be.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    for (kind, (left, most)) in inquiry.audit.rows.iter().filter(|(_, (left, most))| left > most) {
        let story = format!("{left} rows of {kind} are left, and at most {most} may be");
        report.add("unbounded growth", story);
    }
    for pending in &inquiry.audit.pending {
        let story = format!("{} since {}: {}", pending.what, pending.since, pending.why);
        report.add("not finished", story);
    }
    for (run, _) in inquiry.audit.runs.iter().filter(|(_, result)| result.is_none()) {
        let story = format!("{run} has not ended");
        report.add("not finished", story);
    }
}
