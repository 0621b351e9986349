//! Workers killed: consumers while they hold leases, committers in the middle of their commits
//! (schedules 23, 58 and 99).
//!
//! A victim reports that it holds leases and waits; the supervisor checks it in the store; then it
//! is killed.

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{self, COMMITTER, WorkerSlot};
use crate::supervisor::Supervisor;
use crate::worker_spec::{Holds, Load};

pub(super) struct Killed;

impl Scenario for Killed {
    fn name(&self) -> &'static str {
        "killed"
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn plan(&self, workers: usize) -> Vec<WorkerSlot> {
        plan::halves_and_victims(workers, Holds::AmongOthers)
    }

    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        if let Some((who, _)) = supervisor.wait_for_holder()? {
            supervisor.kill_and_replace(&who, Fault::KilledHolding)?;
        }
        let pause = supervisor.rng.millis(10, 250);
        supervisor.work_for(pause);
        if let Some(committer) = supervisor.any(COMMITTER) {
            supervisor.kill_and_replace(&committer, Fault::Killed)?;
            supervisor.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        let faults =
            vec![(Fault::KilledHolding, seconds.div_ceil(3)), (Fault::Killed, seconds.div_ceil(3))];
        Minimums { faults, ..Minimums::default() }
    }
}
