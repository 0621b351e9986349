//! A few hot scopes changed by many processes, which are killed, and stopped for longer than a
//! change may take.
//!
//! Every change has an id. A change that a dead process requested is requested again under it: by
//! then it was done, or is done now.

use std::time::Duration;

use super::Scenario;
use crate::board::BUDGET;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{self, CHANGER, WorkerSlot};
use crate::supervisor::Supervisor;
use crate::worker_spec::Load;

pub(super) struct Scopes;

impl Scenario for Scopes {
    fn name(&self) -> &'static str {
        "scopes"
    }

    /// A hot scope takes many commits: committers slow down.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), scopes: true, ..Load::default() }
    }

    fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        plan::halves_and_changers(workers)
    }

    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        if let Some(changer) = supervisor.any(CHANGER) {
            supervisor.kill_and_replace(&changer, Fault::Killed)?;
            supervisor.wait_for_progress(Fault::Killed);
        }
        if let Some(changer) = supervisor.any(CHANGER) {
            supervisor.stop_while(&changer, Fault::Stopped, |supervisor| {
                supervisor.work_for(BUDGET * 5 / 4);
            });
            supervisor.wait_for_progress(Fault::Stopped);
        }
        Ok(())
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        let each = seconds.div_ceil(3);
        Minimums {
            done: 10 * seconds,
            declined: seconds,
            faults: vec![(Fault::Killed, each), (Fault::Stopped, each)],
            ..Minimums::default()
        }
    }
}
