//! Keys, locks and quotas whose claimants are killed, and stopped until others have taken over,
//! while they hold them (schedules 58 and 67).
//!
//! A victim reports that it holds a lock and waits; the supervisor checks it in the store. Its late
//! write must be refused, and what it held must become free by itself.

use std::time::Duration;

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{self, CLAIMANT, WorkerSlot};
use crate::supervisor::Supervisor;
use crate::worker_spec::Load;

pub(super) struct Claims;

impl Scenario for Claims {
    fn name(&self) -> &'static str {
        "claims"
    }

    /// A claim takes several commits: committers slow down.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), claims: true, ..Load::default() }
    }

    fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        plan::halves_and_claimants(workers)
    }

    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        supervisor.injure_two_holders()?;
        if let Some(claimant) = supervisor.any(CLAIMANT) {
            supervisor.kill_and_replace(&claimant, Fault::Killed)?;
            supervisor.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        let each = seconds.div_ceil(6);
        Minimums {
            done: 5 * seconds,
            told: 2 * seconds,
            took: 2 * seconds,
            refused_late: each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    }
}
