//! Applications whose handlers are killed, and stopped until others have taken over (schedule 20).
//!
//! A handler of a victim reports and waits; the supervisor checks in the store that it holds its
//! target. What it staged must not land, and its successor must handle the same events again, under
//! the same keys.

use std::time::Duration;

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{self, REACTOR, WorkerSlot};
use crate::supervisor::Supervisor;
use crate::worker_spec::Load;

pub(super) struct Reactions;

impl Scenario for Reactions {
    fn name(&self) -> &'static str {
        "reactions"
    }

    /// Every event is handled twice, each time in its own commit: committers slow down.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), reacts: true, ..Load::default() }
    }

    fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        plan::halves_and_reactors(workers)
    }

    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        supervisor.injure_two_holders()?;
        if let Some(reactor) = supervisor.any(REACTOR) {
            supervisor.kill_and_replace(&reactor, Fault::Killed)?;
            supervisor.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        let each = seconds.div_ceil(6);
        Minimums {
            handled: 20 * seconds,
            repeated: 2 * each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    }
}
