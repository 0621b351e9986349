//! Runs whose processes are killed, and stopped until others have taken over, in the middle of
//! steps; those who start them are killed too, and so is the server, where there is one (schedules
//! 35, 36 and 88).
//!
//! A step that something is to happen to says that it is at it and waits; the store is asked
//! whether its process holds the run. What it did must be done again under the same key, or never
//! again, or be there once, as the step has it.

use std::time::Duration;

use super::Scenario;
use crate::cast::{self, RUNNER, STARTER, Seat};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::Load;
use crate::stage::Stage;

pub(super) struct Runs;

impl Scenario for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    /// A run takes several commits: committers take their time.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), runs: true, ..Load::default() }
    }

    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves_and_runners(workers)
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        stage.injure_two_holders()?;
        let seat = [STARTER, RUNNER][usize::from(stage.dice.one_in(2))];
        if let Some(somebody) = stage.any(seat) {
            stage.kill_and_replace(&somebody, Fault::Killed)?;
            stage.wait_for_progress(Fault::Killed);
        }
        if stage.target.server().is_some() && stage.dice.one_in(2) {
            stage.restart_server()?;
            stage.wait_for_progress(Fault::ServerRestarted);
        }
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let each = seconds.div_ceil(6);
        Minimums {
            ran: 4 * seconds,
            repeated: each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    }
}
