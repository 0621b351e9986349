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
use crate::worker_spec::Load;

/// How long the workers run without faults before the minimums are checked again.
const A_WHILE: Duration = Duration::from_millis(200);

pub(crate) trait Scenario: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What it requires.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    /// The load of the workers.
    fn load(&self) -> Load;

    /// The worker plan.
    fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        plan::halves(workers)
    }

    /// Injects one fault. Called repeatedly until the round is over.
    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        supervisor.work_for(A_WHILE);
        Ok(())
    }

    /// The minimums for this many seconds, besides commits and drains.
    fn minimums(&self, seconds: u64) -> Minimums;
}

/// All scenarios, in the order in which they run.
pub(crate) const ALL: [&dyn Scenario; 12] = [
    &many_streams::ManyStreams,
    &hot_stream::HotStream,
    &churn::Churn,
    &killed::Killed,
    &stopped::Stopped,
    &reactions::Reactions,
    &runs::Runs,
    &scopes::Scopes,
    &claims::Claims,
    &closing::Closing,
    &server_restart::ServerRestart,
    &bad_network::BadNetwork,
];

/// The scenarios with these names, in the usual order.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static dyn Scenario>, Failure> {
    let known = || ALL.iter().map(|scenario| scenario.name());
    if let Some(unknown) =
        names.iter().find(|name| *name != "all" && !known().any(|known| known == *name))
    {
        return Err(Failure::Usage {
            what: format!("there is no scenario {unknown:?}"),
            hint: format!("all, or some of {}", known().collect::<Vec<_>>().join(", ")),
        });
    }
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    let is_chosen =
        |scenario: &&&dyn Scenario| all || names.iter().any(|name| name == scenario.name());
    Ok(ALL.iter().filter(is_chosen).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(typed: &[&str]) -> Result<Vec<&'static str>, Failure> {
        let typed: Vec<String> = typed.iter().map(ToString::to_string).collect();
        Ok(chosen(&typed)?.into_iter().map(Scenario::name).collect())
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
