//! A search: seed after seed, until one fails or the time is over.

use std::time::{Duration, Instant};

use super::coverage::Coverage;
use super::mutants::Mutant;
use super::place::Medium;
use super::plan::{Cut, Plan};
use super::profile::Profile;
use super::shrink::shrink;
use super::simulation::{Report, simulate};

/// Simulations that shrinking a failure may take.
pub const SHRINKING: usize = 120;

/// What a search has done so far.
#[derive(Debug, Default)]
pub struct Progress {
    /// Seeds played.
    pub seeds: u64,
    /// Simulated time of all processes.
    pub process_seconds: f64,
    /// Recorded operations.
    pub operations: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// Histories of which a checker could not decide everything.
    pub undecided: u64,
}

impl Progress {
    /// Counts a simulation.
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.process_seconds += report.process_seconds;
        self.operations += report.history.operations.len() as u64;
        self.coverage.add(&report.coverage);
        self.undecided += u64::from(!report.undecided.is_empty());
    }

    /// One line.
    pub fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(0.001);
        let faults: u64 = self.coverage.faults.values().sum();
        format!(
            "{} seeds ({:.1}/s), {:.0} process-seconds/s, {} operations, {faults} faults of {} kinds, {} promises",
            self.seeds,
            self.seeds as f64 / seconds,
            self.process_seconds / seconds,
            self.operations,
            self.coverage.faults.len(),
            self.coverage.promises(),
        )
    }
}

/// A failing seed, and the smallest plan of it that fails.
#[derive(Debug)]
pub struct Failure {
    /// What was left out.
    pub cut: Cut,
    /// What came of the rest.
    pub report: Report,
}

/// Plays seeds from this one on until one fails or `until` says that it is enough.
pub fn search(
    profile: &Profile,
    first: u64,
    mut until: impl FnMut(&Progress) -> bool,
) -> (Progress, Option<Failure>) {
    let mut progress = Progress::default();
    for seed in first.. {
        if until(&progress) {
            break;
        }
        let plan = Plan::of(seed, profile);
        let report = simulate(&plan);
        progress.add(&report);
        if !report.violations.is_empty() {
            let (cut, report) = match profile.medium {
                // What happens in real time does not happen again.
                Medium::Server => (Cut::default(), report),
                Medium::Memory | Medium::File => shrink(&plan, report, SHRINKING),
            };
            return (progress, Some(Failure { cut, report }));
        }
    }
    (progress, None)
}

/// The number of seeds until a mutant is found, and how; none if it is not found within so many.
pub fn find(mutant: Mutant, profile: &Profile, seeds: u64) -> Option<(u64, Duration, String)> {
    let began = Instant::now();
    (1..=seeds).find_map(|seed| {
        let profile = mutant.profile().unwrap_or_else(|| profile.clone());
        let plan = Plan { mutant: Some(mutant), ..Plan::of(seed, &profile) };
        let report = simulate(&plan);
        let found = report.violations.into_iter().next()?;
        Some((seed, began.elapsed(), found))
    })
}
