//! What can happen, a file each: the work, who does it, what is done to them meanwhile, and how
//! much must have happened.

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

use crate::cast::{self, Seat};
use crate::failure::Failure;
use crate::floors::Minimums;
use crate::part::Load;
use crate::stage::Stage;
use crate::target::Needs;

/// For how long everybody works, where nothing is done to them, before it is asked again whether
/// that is enough.
const A_WHILE: Duration = Duration::from_millis(200);

pub(crate) trait Scenario: Sync {
    /// Its name, as it is typed.
    fn name(&self) -> &'static str;

    /// What it cannot do without.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    /// What the work looks like.
    fn load(&self) -> Load;

    /// Who works.
    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves(workers)
    }

    /// Does to the workers whatever is done to them, once. This is called again and again until the
    /// time is over and enough has happened.
    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        stage.work_for(A_WHILE);
        Ok(())
    }

    /// What must have happened in this many seconds, beside commits and drains, for the round to
    /// prove anything.
    fn floors(&self, seconds: u64) -> Minimums;
}

/// Every scenario there is, in the order in which they are played.
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
