//! The scenarios, one file each: the load, the workers, the faults, and the minimums.

mod bad_network;
mod churn;
mod claims;
mod closing;
mod hot_stream;
mod killed;
mod many_streams;
mod reactions;
mod runs;
mod scopes;
mod server_restart;
mod stopped;

use std::time::Duration;

use crate::failure::Failure;
use crate::minimums::Minimums;
use crate::plan::{self, WorkerSlot};
use crate::supervisor::Supervisor;
use crate::target::Needs;
use crate::worker_spec::{Load, Role};

/// How long the workers run without faults before the minimums are checked again.
const A_WHILE: Duration = Duration::from_millis(200);

pub(crate) struct Scenario {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it requires.
    pub(crate) needs: Needs,
    /// The load of the workers.
    pub(crate) load: fn() -> Load,
    /// The workers besides committers, consumers and a follower: how many of each.
    pub(crate) besides: &'static [(&'static str, Role, usize)],
    /// Injects one fault. Called repeatedly until the round is over.
    pub(crate) injure: fn(&mut Supervisor<'_>) -> Result<(), Failure>,
    /// The minimums for this many seconds, besides commits and drains.
    pub(crate) minimums: fn(u64) -> Minimums,
}

impl Scenario {
    /// A scenario without faults.
    const QUIET: Self = Self {
        name: "quiet",
        needs: Needs::Nothing,
        load: Load::default,
        besides: &[],
        injure: |supervisor| {
            supervisor.work_for(A_WHILE);
            Ok(())
        },
        minimums: |_| Minimums::default(),
    };

    /// The workers, for this many committers and consumers.
    pub(crate) fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        let besides = self.besides.iter();
        let besides = besides.flat_map(|&(name, role, count)| vec![(name, role); count]);
        plan::halves(workers).into_iter().chain(besides).collect()
    }
}

/// All scenarios, in the order in which they run.
pub(crate) const ALL: [&Scenario; 12] = [
    &many_streams::MANY_STREAMS,
    &hot_stream::HOT_STREAM,
    &churn::CHURN,
    &killed::KILLED,
    &stopped::STOPPED,
    &reactions::REACTIONS,
    &runs::RUNS,
    &scopes::SCOPES,
    &claims::CLAIMS,
    &closing::CLOSING,
    &server_restart::SERVER_RESTART,
    &bad_network::BAD_NETWORK,
];

/// The scenarios with these names, in the usual order.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>, Failure> {
    let known = || ALL.iter().map(|scenario| scenario.name);
    if let Some(unknown) =
        names.iter().find(|name| *name != "all" && !known().any(|known| known == *name))
    {
        return Err(Failure::Usage {
            what: format!("there is no scenario {unknown:?}"),
            hint: format!("all, or some of {}", known().collect::<Vec<_>>().join(", ")),
        });
    }
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    let is_chosen = |scenario: &&&Scenario| all || names.iter().any(|name| name == scenario.name);
    Ok(ALL.iter().filter(is_chosen).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{COMMITTER, CONSUMER, FOLLOWER};

    fn names(typed: &[&str]) -> Result<Vec<&'static str>, Failure> {
        let typed: Vec<String> = typed.iter().map(ToString::to_string).collect();
        Ok(chosen(&typed)?.into_iter().map(|scenario| scenario.name).collect())
    }

    #[test]
    fn every_role_of_a_scenario_has_at_least_one_worker() {
        for (scenario, workers) in ALL.into_iter().flat_map(|one| (1..6).map(move |n| (one, n))) {
            let slots = scenario.plan(workers);
            let besides = scenario.besides.iter().map(|(name, ..)| *name);
            for name in besides.chain([FOLLOWER, COMMITTER, CONSUMER]) {
                let any = slots.iter().any(|(slot, _)| *slot == name);
                assert!(any, "{}: {workers} workers and no {name}", scenario.name);
            }
            let besides: usize = scenario.besides.iter().map(|(.., count)| count).sum();
            assert_eq!(slots.len(), workers.max(2) + 1 + besides);
        }
    }

    #[test]
    fn scenarios_are_chosen_by_name_or_all_at_once() {
        assert_eq!(names(&["killed", "churn"]).unwrap(), ["churn", "killed"]);
        assert_eq!(names(&[]).unwrap().len(), ALL.len());
        assert_eq!(names(&["all", "killed"]).unwrap().len(), ALL.len());
        let unknown = names(&["kiled"]).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no scenario \"kiled\"");
        assert_eq!(unknown.exit_code(), 2);
    }
}
