//! How much must have happened for a round to prove anything. A run that did nothing is not a pass.

use crate::faults::Fault;
use crate::finding::{Finding, Kind};
use crate::tally::Tally;

/// Commits per second that the slowest machine makes with everybody injured all the time.
const COMMITS_PER_SECOND: u64 = 20;

/// The least that must have happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Minimums {
    /// Commits acknowledged. Set for every scenario alike.
    pub(crate) acked: u64,
    pub(crate) drained: u64,
    pub(crate) handled: u64,
    /// Runs that came to their last step.
    pub(crate) ran: u64,
    /// Effects done again.
    pub(crate) repeated: u64,
    /// What was done under a lock, and changes of scopes.
    pub(crate) done: u64,
    /// Results of keys that a worker was told.
    pub(crate) told: u64,
    /// Times that units of a quota were had.
    pub(crate) took: u64,
    /// Bookings acknowledged, and books closed.
    pub(crate) booked: u64,
    pub(crate) closed: u64,
    /// Changes of scopes that were not done.
    pub(crate) declined: u64,
    pub(crate) refused: u64,
    pub(crate) refused_late: u64,
    pub(crate) unknown: u64,
    /// Calls that gave no answer, for whichever reason.
    pub(crate) failed: u64,
    pub(crate) leases: u64,
    pub(crate) faults: Vec<(Fault, u64)>,
}

impl Minimums {
    /// The same, with what every scenario owes.
    pub(crate) fn and_commits(mut self, floor: Option<u64>, seconds: u64) -> Self {
        self.acked = floor.unwrap_or(COMMITS_PER_SECOND * seconds);
        self.drained = self.drained.max(1);
        self.leases = self.leases.max(1);
        self
    }

    /// What was missed.
    pub(crate) fn missed_by(&self, tally: &Tally) -> Vec<Finding> {
        let counts = [
            ("commits acknowledged", tally.acked, self.acked),
            ("events drained", tally.drained, self.drained),
            ("events handled", tally.handled, self.handled),
            ("runs", tally.ran, self.ran),
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
        let tell =
            |(what, count, least)| format!("{what}: {count}, and at least {least} were to be");
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
            "too little happened: commits acknowledged: 0, and at least 60 were to be"
        );
    }

    #[test]
    fn a_fault_that_was_not_injected_is_missed() {
        let floors = Minimums { faults: vec![(Fault::KilledHolding, 2)], ..Minimums::default() };
        let mut tally = Tally::default();
        tally.faults.count(Fault::KilledHolding);
        assert!(floors.missed_by(&tally)[0].what.starts_with("killed holding leases: 1, "));
        tally.faults.count(Fault::KilledHolding);
        assert_eq!(floors.missed_by(&tally), []);
    }
}
