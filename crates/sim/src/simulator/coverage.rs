//! Coverage: how often a simulation reached a fault, or a condition that it should reach sometimes.

use std::collections::BTreeMap;

use super::fault::Fault;
use super::profile::Profile;

/// Counts, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// How often each kind of fault was injected.
    pub faults: BTreeMap<Fault, u64>,
    /// How often each condition held that should hold sometimes.
    pub sometimes: BTreeMap<&'static str, u64>,
}

/// Conditions that an hour of simulation must reach, with the promises near which they are.
pub const SOMETIMES: &[(&str, &str)] = &[
    ("commit conflicts", "COMMIT-2"),
    ("settlement of a lost lease is refused", "LEASE-5"),
    ("lease expires", "LEASE-6"),
    ("lease is lost at a renewal", "LEASE-4"),
    ("page is short and has more after it", "READ-2"),
    ("append to a closed stream is refused", "LOG-8"),
    ("stream is trimmed", "LOG-9"),
    ("decision is made again", "EVT-2"),
    ("operation is answered from memory", "EVT-6"),
    ("handler runs again for an event", "REACT-15"),
    ("target is rebuilt", "REACT-16"),
    ("step runs again", "RUN-6"),
    ("step has an unknown outcome", "RUN-14"),
    ("run is suspended and continues", "RUN-9"),
    ("run fails and is compensated", "RUN-20"),
    ("run is cancelled", "RUN-18"),
    ("child run ends", "RUN-23"),
    ("schedule starts a run", "RUN-42"),
    ("lock is taken over from a holder that was lost", "CLAIM-10"),
    ("lock is waited for", "CLAIM-11"),
    ("key is held by another claimant", "CLAIM-1"),
    ("key is done", "CLAIM-1"),
    ("write under a lost lock is refused", "CLAIM-3"),
    ("quota is exceeded", "CLAIM-12"),
    ("units are refunded", "CLAIM-13"),
    ("compound is refused", "CLAIM-14"),
    ("singleton is taken", "CLAIM-9"),
    ("closing continues after a death", "CLOSE-4"),
    ("books are closed", "CLOSE-1"),
    ("scope operation is repeated", "SCOPE-8"),
    ("the store edits a document", "SCOPE-15"),
    ("response is replayed", "CLAIM-41"),
    ("queue item is leased again", "LEASE-6"),
    ("subject is erased", "EVT-13"),
    ("personal data of an erased subject is refused", "EVT-13"),
    ("event is skipped", "REACT-28"),
    ("runs are ended together", "RUN-54"),
    ("job is ended by an operator", "JOB-7"),
    ("job runs again", "JOB-2"),
    ("job is a duplicate", "JOB-5"),
    ("work is paused", "JOB-10"),
    ("rate is exceeded", "CLAIM-23"),
    ("store is imported", "CMD-6"),
    ("import is interrupted", "CMD-6"),
    ("unit of work over every pattern lands", "COMMIT-1"),
];

impl Coverage {
    /// Counts a fault.
    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Counts a condition.
    pub fn sometimes(&mut self, condition: &'static str) {
        debug_assert!(SOMETIMES.iter().any(|(known, _)| *known == condition), "{condition}");
        *self.sometimes.entry(condition).or_default() += 1;
    }

    /// Adds the counts of another simulation.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (condition, count) in &other.sometimes {
            *self.sometimes.entry(condition).or_default() += count;
        }
    }

    /// The faults of the profile, and the conditions, that were never reached.
    pub fn missing(&self, profile: &Profile) -> Vec<&'static str> {
        let faults = Fault::ALL.iter().filter(|fault| profile.has(**fault));
        let faults = faults.filter(|fault| !self.faults.contains_key(fault));
        let sometimes = SOMETIMES.iter().map(|(condition, _)| *condition);
        let sometimes = sometimes.filter(|condition| !self.sometimes.contains_key(condition));
        faults.map(|fault| fault.name()).chain(sometimes).collect()
    }

    /// Promises near which a simulation came.
    pub fn promises(&self) -> usize {
        let reached = SOMETIMES.iter().filter(|(name, _)| self.sometimes.contains_key(name));
        let mut promises: Vec<_> = reached.map(|(_, promise)| promise).collect();
        promises.sort();
        promises.dedup();
        promises.len()
    }
}
