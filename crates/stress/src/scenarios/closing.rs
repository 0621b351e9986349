//! Accounts whose books are closed, restarted and trimmed to a window while others book in them, by
//! processes that are killed meanwhile (schedule 32).
//!
//! The archive is the closer's journal. Another closer finishes what a dead one began, once its
//! lease has expired.

use std::time::Duration;

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{self, BOOKER, CLOSER, WorkerSlot};
use crate::supervisor::Supervisor;
use crate::worker_spec::Load;

pub(super) struct Closing;

impl Scenario for Closing {
    fn name(&self) -> &'static str {
        "closing"
    }

    /// A closing takes several commits: committers slow down.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), closes: true, ..Load::default() }
    }

    fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        plan::halves_and_closers(workers)
    }

    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        let pause = supervisor.rng.millis(100, 500);
        supervisor.work_for(pause);
        let slot = if supervisor.rng.one_in(4) { BOOKER } else { CLOSER };
        if let Some(worker) = supervisor.any(slot) {
            supervisor.kill_and_replace(&worker, Fault::Killed)?;
            supervisor.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        let faults = vec![(Fault::Killed, seconds.div_ceil(2))];
        Minimums { booked: 10 * seconds, closed: 2 * seconds, faults, ..Minimums::default() }
    }
}
