//! The cases: workloads by store and number of callers, with their targets.

use super::Workload;
use crate::args::Choice;
use crate::check::{Reference, SpeedTarget};
use crate::failure::Failure;
use crate::target::Target;

/// A workload at a number of callers.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) callers: usize,
    /// Number of clients of the baseline, concurrent or in a group.
    pub(crate) baseline: usize,
    pub(crate) workload: Workload,
    pub(crate) target: SpeedTarget,
}

const fn case(name: &'static str, callers: usize, workload: Workload) -> Case {
    Case { name, callers, baseline: callers, workload, target: SpeedTarget::NOTHING }
}

impl Case {
    /// Sets the number of clients of the baseline.
    const fn beside(self, baseline: usize) -> Self {
        Self { baseline, ..self }
    }

    const fn at_least(self, speed: f64) -> Self {
        Self { target: SpeedTarget { speed: Some(speed), ..self.target }, ..self }
    }

    const fn compared(self, reference: Reference) -> Self {
        Self { target: SpeedTarget { reference: Some(reference), ..self.target }, ..self }
    }

    const fn p99_at_most(self, p99: f64) -> Self {
        Self { target: SpeedTarget { p99: Some(p99), ..self.target }, ..self }
    }
}

const COMMIT_1: Workload = Workload::Commit { events: 1 };
const COMMIT_10: Workload = Workload::Commit { events: 10 };
const FEW: Reference = Reference::FewIdle(None);
const FEW_TARGET: Reference = Reference::FewIdle(Some(1.5));

/// In memory and on SQLite, in the order in which it is measured.
const EMBEDDED: &[Case] = &[
    case("commit-1", 1, COMMIT_1),
    case("commit-1", 32, COMMIT_1),
    case("commit-1", 64, COMMIT_1),
    case("commit-1", 256, COMMIT_1),
    case("commit-10", 1, COMMIT_10),
    case("commit-10", 32, COMMIT_10),
    case("commit-10", 64, COMMIT_10),
    case("commit-10", 256, COMMIT_10),
    case("load-100", 1, Workload::Load),
    case("load-100", 32, Workload::Load),
    case("feed", 1, Workload::Feed),
    case("lease-10-idle-1k", 1, Workload::Lease { idle: 1_000 }).compared(FEW),
    case("lease-10-idle-100k", 1, Workload::Lease { idle: 100_000 }).compared(FEW),
    case("lease-10-idle-1m", 1, Workload::Lease { idle: 1_000_000 }).compared(FEW),
    case("set-if-absent", 32, Workload::SetIfAbsent),
    case("set-if-absent-hot", 32, Workload::SetIfAbsentHot),
    case("add-hot", 64, Workload::AddHot),
];

/// On PostgreSQL. Beyond 64 clients the plain server only gets slower, so more callers are compared
/// with 32.
const POSTGRES: &[Case] = &[
    case("commit-1", 1, COMMIT_1).at_least(0.8),
    case("commit-1", 32, COMMIT_1).at_least(1.0),
    case("commit-1", 64, COMMIT_1),
    case("commit-1", 256, COMMIT_1).beside(32).at_least(2.0),
    case("commit-10", 1, COMMIT_10),
    case("commit-10", 32, COMMIT_10).at_least(1.2),
    case("commit-10", 256, COMMIT_10).beside(32),
    case("processes-4x16", 64, Workload::Processes)
        .compared(Reference::OneProcess(1.0))
        .p99_at_most(3.0),
    case("mixed", 32, Workload::Mixed),
    case("mixed", 256, Workload::Mixed),
    case("load-100", 1, Workload::Load).at_least(0.7),
    case("load-100", 32, Workload::Load).at_least(0.7),
    case("feed", 1, Workload::Feed),
    case("lease-10-idle-1k", 1, Workload::Lease { idle: 1_000 }).compared(FEW_TARGET),
    case("lease-10-idle-1m", 1, Workload::Lease { idle: 1_000_000 }).compared(FEW_TARGET),
    case("lease-10-churned", 1, Workload::Churned { idle: 1_000_000 }).compared(FEW_TARGET),
    case("set-if-absent", 32, Workload::SetIfAbsent),
    case("set-if-absent-hot", 32, Workload::SetIfAbsentHot),
    case("add-hot", 64, Workload::AddHot),
];

/// Decisions and loads, on any store.
const EVENTS: &[Case] = &[
    case("execute", 1, Workload::Decide).at_least(0.8),
    case("execute", 32, Workload::Decide).at_least(0.8),
    case("execute-hot", 16, Workload::DecideHot).at_least(0.3),
    case("cold-load-100", 1, Workload::ColdLoad { events: 100, snapshot: false }),
    case("cold-load-100-snap", 1, Workload::ColdLoad { events: 100, snapshot: true }),
    case("cold-load-100k", 1, Workload::ColdLoad { events: 100_000, snapshot: false }),
    case("cold-load-100k-snap", 1, Workload::ColdLoad { events: 100_000, snapshot: true }),
];

/// Mutations of scopes: those in memory do not depend on the store.
const SCOPES: &[Case] = &[
    case("mutate", 1, Workload::MutateLocal).at_least(0.4),
    case("mutate", 32, Workload::MutateLocal).at_least(0.4),
    case("mutate", 64, Workload::MutateLocal).at_least(0.4),
    case("increment-hot", 64, Workload::IncrementHot).at_least(0.5),
    case("count-hot", 64, Workload::CountHot).at_least(0.5),
];

/// Claims, on any store.
const CLAIMS: &[Case] = &[
    case("claim-complete", 1, Workload::ClaimComplete).at_least(0.8),
    case("claim-complete", 32, Workload::ClaimComplete).at_least(0.8),
    case("claim-hot", 64, Workload::ClaimHot),
    case("lock-unlock", 1, Workload::LockUnlock),
    case("lock-unlock", 32, Workload::LockUnlock),
    case("quota-18-of-100", 1, Workload::QuotaRound),
];

/// The chosen cases about claims; all, if none was chosen.
pub(crate) fn chosen_claims(choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    choose(CLAIMS, choices)
}

/// The chosen cases about a store; all for such a store, if none was chosen.
pub(crate) fn chosen(target: &Target, choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    choose(
        match target {
            Target::Postgres { .. } => POSTGRES,
            Target::Memory | Target::Sqlite { .. } => EMBEDDED,
        },
        choices,
    )
}

/// The chosen cases about events; all, if none was chosen.
pub(crate) fn chosen_events(choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    choose(EVENTS, choices)
}

/// The chosen cases about scopes; all, if none was chosen.
pub(crate) fn chosen_scopes(choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    choose(SCOPES, choices)
}

fn choose(cases: &'static [Case], choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    if let Some(unknown) =
        choices.iter().find(|choice| !cases.iter().any(|case| choice.means(case)))
    {
        return Err(unknown.refuse(cases));
    }
    let wanted =
        |case: &&Case| choices.is_empty() || choices.iter().any(|choice| choice.means(case));
    Ok(cases.iter().filter(wanted).collect())
}

impl Choice {
    fn means(&self, case: &Case) -> bool {
        self.workload == case.name && self.callers.is_none_or(|callers| callers == case.callers)
    }

    fn refuse(&self, cases: &[Case]) -> Failure {
        let callers = self.callers.map_or(String::new(), |callers| format!("@{callers}"));
        let known: Vec<_> =
            cases.iter().map(|case| format!("{}@{}", case.name, case.callers)).collect();
        Failure::Usage {
            what: format!("there is no workload {}{callers}", self.workload),
            hint: format!("one of {}", known.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_narrows_and_no_choice_means_everything() {
        let count = |choices: &[&str]| {
            let choices: Vec<Choice> = choices.iter().map(|c| c.parse().unwrap()).collect();
            chosen(&Target::Memory, &choices).map(|cases| cases.len()).map_err(|e| e.to_string())
        };
        assert_eq!(count(&[]), Ok(EMBEDDED.len()));
        assert_eq!(count(&["commit-1"]), Ok(4));
        assert_eq!(count(&["commit-1@64", "feed"]), Ok(2));
        assert_eq!(count(&["commit-2"]), Err("there is no workload commit-2".to_owned()));
        assert_eq!(count(&["feed@7"]), Err("there is no workload feed@7".to_owned()));
        assert_eq!(count(&["mixed"]), Err("there is no workload mixed".to_owned()));
    }
}
