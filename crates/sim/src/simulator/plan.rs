//! The plan of a simulation: everything that its seed decides before it begins. It is data, so that
//! a failing simulation can be repeated with a part of it left out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fault::Fault;
use super::mutants::Mutant;
use super::place::Medium;
use super::profile::Profile;
use super::rng::Rng;

/// A simulation to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed from which everything follows.
    pub seed: u64,
    /// Number of simulated processes.
    pub processes: usize,
    /// Number of concurrent clients of each process.
    pub clients: usize,
    /// Operations that each client begins.
    pub operations: u64,
    /// For how long there are faults.
    pub length: Duration,
    /// How often each fault of a call happens, in ten thousand calls.
    pub calls: BTreeMap<Fault, u32>,
    /// The faults at given moments.
    pub events: Vec<Event>,
    /// The lease of workers, locks and keys.
    pub lease: Duration,
    /// The most common latency of a call is below this one, each way.
    pub latency_ms: u64,
    /// Where the store keeps its data.
    pub medium: Medium,
    /// A defect of the store or of a pattern, as a positive control.
    pub mutant: Option<Mutant>,
}

/// What is left out of a plan: the result of shrinking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    /// At most this many processes.
    pub processes: Option<usize>,
    /// At most this many clients of each.
    pub clients: Option<usize>,
    /// At most this many operations of each.
    pub operations: Option<u64>,
    /// Only these faults at given moments, by their place in the plan.
    pub events: Option<Vec<usize>>,
    /// None of these faults of calls.
    pub without: Vec<Fault>,
}

/// A fault at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When it begins.
    pub at: Duration,
    /// Its kind.
    pub fault: Fault,
    /// The process that it hits.
    pub process: usize,
    /// How long it lasts.
    pub length: Duration,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64, profile: &Profile) -> Self {
        let mut rng = Rng::seeded(seed);
        let processes = 2 + usize::try_from(rng.below(profile.processes)).unwrap_or(0);
        let length = rng.millis(20_000, 60_000);
        // Some faults are absent from some seeds: without them others show.
        let calls = profile.calls.iter().filter_map(|(fault, often)| {
            let often = *often * [0, 1, 1, 3][usize::try_from(rng.below(4)).unwrap_or(0)];
            (often > 0).then_some((*fault, often))
        });
        let calls = calls.collect();
        let count = rng.below(profile.events + 1);
        let mut events: Vec<Event> = (0..count)
            .map(|_| Event {
                at: rng.millis(500, u64::try_from(length.as_millis()).unwrap_or(1_000)),
                fault: *rng.pick(&profile.kinds),
                process: usize::try_from(rng.below(processes as u64)).unwrap_or(0),
                length: rng.millis(200, 12_000),
            })
            .collect();
        events.sort_by_key(|event| event.at);
        Self {
            seed,
            processes,
            clients: 2 + usize::try_from(rng.below(4)).unwrap_or(0),
            operations: 5 + rng.below(profile.operations),
            length,
            calls,
            events,
            lease: *rng.pick(&[3, 6, 10].map(Duration::from_secs)),
            latency_ms: *rng.pick(&[1, 3, 10, 40]),
            medium: profile.medium,
            mutant: None,
        }
    }

    /// The plan without what is cut.
    #[must_use]
    pub fn cut(mut self, cut: &Cut) -> Self {
        self.processes = cut.processes.map_or(self.processes, |most| most.min(self.processes));
        self.clients = cut.clients.map_or(self.clients, |most| most.min(self.clients));
        self.operations = cut.operations.map_or(self.operations, |most| most.min(self.operations));
        if let Some(kept) = &cut.events {
            let kept = kept.iter().filter_map(|nth| self.events.get(*nth).copied());
            self.events = kept.collect();
        }
        self.calls.retain(|fault, _| !cut.without.contains(fault));
        self
    }

    /// How often this fault of a call happens, in ten thousand calls.
    pub fn often(&self, fault: Fault) -> u32 {
        self.calls.get(&fault).copied().unwrap_or(0)
    }

    /// The simulated time of all processes together, without the calm after the faults.
    pub fn process_seconds(&self) -> f64 {
        self.length.as_secs_f64() * self.processes as f64
    }

    /// How much there is in it: what shrinking makes smaller.
    pub fn size(&self) -> u64 {
        let load = self.processes as u64 * self.clients as u64 * self.operations;
        load + self.events.len() as u64 + self.calls.len() as u64
    }
}
