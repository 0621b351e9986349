//! Keys, locks and quotas whose claimants are killed, and stopped until others have taken over,
//! while they hold them (schedules 58 and 67).
//!
//! A claimant that something is to happen to says that it holds a lock and waits; the store is
//! asked whether it does. What it writes late must be refused, and what it held must come back by
//! itself.

use std::time::Duration;

use super::Scenario;
use crate::cast::{self, CLAIMANT, Seat};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::Load;
use crate::stage::Stage;

pub(super) struct Claims;

impl Scenario for Claims {
    fn name(&self) -> &'static str {
        "claims"
    }

    /// A claim takes several commits: committers take their time.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), claims: true, ..Load::default() }
    }

    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves_and_claimants(workers)
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        stage.injure_two_holders()?;
        if let Some(claimant) = stage.any(CLAIMANT) {
            stage.kill_and_replace(&claimant, Fault::Killed)?;
            stage.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
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
