//! Runs whose processes are killed, and stopped until others have taken over, in the middle of
//! steps; starters are killed too, and so is the server, where there is one (schedules 35, 36 and
//! 88).
//!
//! A step of a victim reports and waits; the supervisor checks in the store that its process holds
//! the run. Its effect must be repeated under the same key, or never, or happen once, according to
//! the step.

use std::time::Duration;

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{self, RUNNER, STARTER, WorkerSlot};
use crate::supervisor::Supervisor;
use crate::worker_spec::Load;

pub(super) struct Runs;

impl Scenario for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    /// A run takes several commits: committers slow down.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), runs: true, ..Load::default() }
    }

    fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        plan::halves_and_runners(workers)
    }

    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        supervisor.injure_two_holders()?;
        let slot = [STARTER, RUNNER][usize::from(supervisor.rng.one_in(2))];
        if let Some(worker) = supervisor.any(slot) {
            supervisor.kill_and_replace(&worker, Fault::Killed)?;
            supervisor.wait_for_progress(Fault::Killed);
        }
        if supervisor.target.server().is_some() && supervisor.rng.one_in(2) {
            supervisor.restart_server()?;
            supervisor.wait_for_progress(Fault::ServerRestarted);
        }
        Ok(())
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        let each = seconds.div_ceil(6);
        Minimums {
            runs_finished: 4 * seconds,
            repeated: each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    }
}
