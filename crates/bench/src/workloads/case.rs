//! Which workloads are measured on which store, with how many callers, and what is asked of them.

use super::Workload;
use crate::args::Choice;
use crate::check::{SpeedTarget, Yardstick};
use crate::failure::Failure;
use crate::target::Target;

/// A workload at a number of callers.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) callers: usize,
    /// How many do the same on the bare side, at once or in a group.
    pub(crate) bare: usize,
    pub(crate) workload: Workload,
    pub(crate) asked: SpeedTarget,
}

const fn case(name: &'static str, callers: usize, workload: Workload) -> Case {
    Case { name, callers, bare: callers, workload, asked: SpeedTarget::NOTHING }
}

impl Case {
    /// With another number on the bare side.
    const fn beside(self, bare: usize) -> Self {
        Self { bare, ..self }
    }

    const fn asking(self, speed: f64) -> Self {
        Self { asked: SpeedTarget { speed: Some(speed), ..self.asked }, ..self }
    }

    const fn compared(self, yardstick: Yardstick) -> Self {
        Self { asked: SpeedTarget { yardstick: Some(yardstick), ..self.asked }, ..self }
    }

    const fn asking_p99(self, p99: f64) -> Self {
        Self { asked: SpeedTarget { p99: Some(p99), ..self.asked }, ..self }
    }
}

const COMMIT_1: Workload = Workload::Commit { events: 1 };
const COMMIT_10: Workload = Workload::Commit { events: 10 };
const FEW: Yardstick = Yardstick::FewIdle(None);
const FEW_ASKED: Yardstick = Yardstick::FewIdle(Some(1.5));

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

/// On PostgreSQL. Beyond 64 bare clients the server only gets slower, so that more callers are held
/// against 32.
const POSTGRES: &[Case] = &[
    case("commit-1", 1, COMMIT_1).asking(0.8),
    case("commit-1", 32, COMMIT_1).asking(1.0),
    case("commit-1", 64, COMMIT_1),
    case("commit-1", 256, COMMIT_1).beside(32).asking(2.0),
    case("commit-10", 1, COMMIT_10),
    case("commit-10", 32, COMMIT_10).asking(1.2),
    case("commit-10", 256, COMMIT_10).beside(32),
    case("processes-4x16", 64, Workload::Processes)
        .compared(Yardstick::OneProcess(1.0))
        .asking_p99(3.0),
    case("mixed", 32, Workload::Mixed),
    case("mixed", 256, Workload::Mixed),
    case("load-100", 1, Workload::Load).asking(0.7),
    case("load-100", 32, Workload::Load).asking(0.7),
    case("feed", 1, Workload::Feed),
    case("lease-10-idle-1k", 1, Workload::Lease { idle: 1_000 }).compared(FEW_ASKED),
    case("lease-10-idle-1m", 1, Workload::Lease { idle: 1_000_000 }).compared(FEW_ASKED),
    case("lease-10-churned", 1, Workload::Churned { idle: 1_000_000 }).compared(FEW_ASKED),
    case("set-if-absent", 32, Workload::SetIfAbsent),
    case("set-if-absent-hot", 32, Workload::SetIfAbsentHot),
    case("add-hot", 64, Workload::AddHot),
];

/// Decisions and loads, on any store.
const EVENTS: &[Case] = &[
    case("execute", 1, Workload::Decide).asking(0.8),
    case("execute", 32, Workload::Decide).asking(0.8),
    case("execute-hot", 16, Workload::DecideHot).asking(0.3),
    case("cold-load-100", 1, Workload::ColdLoad { events: 100, snapshot: false }),
    case("cold-load-100-snap", 1, Workload::ColdLoad { events: 100, snapshot: true }),
    case("cold-load-100k", 1, Workload::ColdLoad { events: 100_000, snapshot: false }),
    case("cold-load-100k-snap", 1, Workload::ColdLoad { events: 100_000, snapshot: true }),
];

/// Mutations of scopes: those in memory are the same beside any store.
const SCOPES: &[Case] = &[
    case("mutate", 1, Workload::MutateLocal).asking(0.5),
    case("mutate", 32, Workload::MutateLocal).asking(0.5),
    case("mutate", 64, Workload::MutateLocal).asking(0.5),
    case("increment-hot", 64, Workload::IncrementHot).asking(0.5),
    case("count-hot", 64, Workload::CountHot).asking(0.5),
];

/// Claims, on any store.
const CLAIMS: &[Case] = &[
    case("claim-complete", 1, Workload::ClaimComplete).asking(0.8),
    case("claim-complete", 32, Workload::ClaimComplete).asking(0.8),
    case("claim-hot", 64, Workload::ClaimHot),
    case("lock-unlock", 1, Workload::LockUnlock),
    case("lock-unlock", 32, Workload::LockUnlock),
    case("quota-18-of-100", 1, Workload::QuotaRound),
];

/// The cases about claims that were chosen; all of them, if none was.
pub(crate) fn chosen_claims(choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    choose(CLAIMS, choices)
}

/// The cases about a store that were chosen; all that there are for such a store, if none was.
pub(crate) fn chosen(target: &Target, choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    choose(
        match target {
            Target::Postgres { .. } => POSTGRES,
            Target::Memory | Target::Sqlite { .. } => EMBEDDED,
        },
        choices,
    )
}

/// The cases about events that were chosen; all of them, if none was.
pub(crate) fn chosen_events(choices: &[Choice]) -> Result<Vec<&'static Case>, Failure> {
    choose(EVENTS, choices)
}

/// The cases about scopes that were chosen; all of them, if none was.
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
