//! Minimum activity: a round below it proves nothing, and is not a pass.

use crate::faults::Fault;
use crate::finding::{Finding, Kind};
use crate::tally::Tally;

/// Commits per second that the slowest machine makes under constant faults.
const COMMITS_PER_SECOND: u64 = 20;

/// The minimum counts of a round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Minimums {
    /// Acknowledged commits. Set for every scenario alike.
    pub(crate) acked: u64,
    pub(crate) drained: u64,
    pub(crate) handled: u64,
    /// Runs that reached their last step.
    pub(crate) runs_finished: u64,
    /// Repeated effects.
    pub(crate) repeated: u64,
    /// Writes under a lock, and changes of scopes.
    pub(crate) done: u64,
    /// Results of keys reported to a worker.
    pub(crate) told: u64,
    /// Grants of quota units.
    pub(crate) took: u64,
    /// Acknowledged bookings, and closed books.
    pub(crate) booked: u64,
    pub(crate) closed: u64,
    /// Declined changes of scopes.
    pub(crate) declined: u64,
    pub(crate) refused: u64,
    pub(crate) refused_late: u64,
    pub(crate) unknown: u64,
    /// Calls without an answer, for any reason.
    pub(crate) failed: u64,
    pub(crate) leases: u64,
    pub(crate) faults: Vec<(Fault, u64)>,
}

impl Minimums {
    /// Adds the minimums that every scenario has.
    pub(crate) fn and_commits(mut self, min_commits: Option<u64>, seconds: u64) -> Self {
        self.acked = min_commits.unwrap_or(COMMITS_PER_SECOND * seconds);
        self.drained = self.drained.max(1);
        self.leases = self.leases.max(1);
        self
    }

    /// Returns the minimums that were not reached.
    pub(crate) fn missed_by(&self, tally: &Tally) -> Vec<Finding> {
        let counts = [
            ("commits acknowledged", tally.acked, self.acked),
            ("events drained", tally.drained, self.drained),
            ("events handled", tally.handled, self.handled),
            ("runs", tally.runs_finished, self.runs_finished),
            ("effects repeated", tally.repeated, self.repeated),
            ("locks used and scopes changed", tally.done, self.done),
            ("results of keys", tally.told, self.told),
            ("units of quotas had", tally.took, self.took),
            ("bookings", tally.booked, self.booked),
            ("books closed", tally.closed, self.closed),
            ("changes declined", tally.declined, self.declined),
            ("commits refused", tally.refused, self.refused),
            ("late commits refused", tally.refused_late, self.refused_late),
            ("unknown outcomes", tally.unknown(), self.unknown),
            ("calls that failed", tally.unknown() + tally.errors, self.failed),
            ("leases granted", tally.leases, self.leases),
        ];
        let faults = self
            .faults
            .iter()
            .map(|(fault, least)| (fault.to_string(), tally.faults.of(*fault), *least));
        let counts = counts
            .map(|(what, count, least)| (what.to_owned(), count, least))
            .into_iter()
            .chain(faults);
        let tell = |(what, count, least)| format!("{what}: {count}, expected at least {least}");
        let missed = counts.filter(|(_, count, least)| count < least);
        missed.map(|missed| Finding::new(Kind::TooLittle, tell(missed))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_did_nothing_is_not_a_pass() {
        let missed = Minimums::default().and_commits(None, 3).missed_by(&Tally::default());
        assert_eq!(missed.len(), 3, "{missed:?}");
        assert_eq!(
            missed[0].to_string(),
            "too little happened: commits acknowledged: 0, expected at least 60"
        );
    }

    #[test]
    fn a_fault_that_was_not_injected_is_missed() {
        let minimums = Minimums { faults: vec![(Fault::KilledHolding, 2)], ..Minimums::default() };
        let mut tally = Tally::default();
        tally.faults.count(Fault::KilledHolding);
        assert!(minimums.missed_by(&tally)[0].what.starts_with("killed holding leases: 1, "));
        tally.faults.count(Fault::KilledHolding);
        assert_eq!(minimums.missed_by(&tally), []);
    }
}
