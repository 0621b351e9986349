//! Workers stopped (SIGSTOP) and continued: consumers with leases in hand until others have their
//! items, others in the middle of anything (schedule 20).
//!
//! A stopped worker does not know that time has passed. What it commits when it goes on must be
//! refused.

use super::Scenario;
use crate::cast::{self, COMMITTER, CONSUMER, Seat};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::{Holds, Load};
use crate::stage::Stage;

pub(super) struct Stopped;

impl Scenario for Stopped {
    fn name(&self) -> &'static str {
        "stopped"
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves_and_victims(workers, Holds::Alone)
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        if let Some((who, leases)) = stage.wait_for_holder()? {
            stage.stop_while(&who, Fault::StoppedHolding, |stage| {
                stage.wait_for_takeover(&leases)
            })?;
            stage.release(&who);
        }
        let seat = [COMMITTER, CONSUMER][usize::from(stage.dice.one_in(2))];
        if let Some(anybody) = stage.any(seat) {
            let lease = stage.lease();
            stage.stop_while(&anybody, Fault::Stopped, |stage| stage.work_for(lease * 3 / 2));
            stage.wait_for_progress(Fault::Stopped);
        }
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let stops = seconds.div_ceil(4);
        Minimums {
            faults: vec![(Fault::StoppedHolding, stops)],
            refused_late: stops,
            ..Minimums::default()
        }
    }
}
