//! Workers killed: consumers while they hold leases, committers in the middle of their commits
//! (schedules 23, 58 and 99).
//!
//! A consumer that is to die says that it holds leases and waits; the store is asked whether it
//! does; then it is killed.

use super::Scenario;
use crate::cast::{self, COMMITTER, Seat};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::{Holds, Load};
use crate::stage::Stage;

pub(super) struct Killed;

impl Scenario for Killed {
    fn name(&self) -> &'static str {
        "killed"
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves_and_victims(workers, Holds::AmongOthers)
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        if let Some((who, _)) = stage.wait_for_holder()? {
            stage.kill_and_replace(&who, Fault::KilledHolding)?;
        }
        let pause = stage.dice.millis(10, 250);
        stage.work_for(pause);
        if let Some(committer) = stage.any(COMMITTER) {
            stage.kill_and_replace(&committer, Fault::Killed)?;
            stage.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let faults =
            vec![(Fault::KilledHolding, seconds.div_ceil(3)), (Fault::Killed, seconds.div_ceil(3))];
        Minimums { faults, ..Minimums::default() }
    }
}
