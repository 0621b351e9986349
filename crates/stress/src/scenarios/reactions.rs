//! Applications whose handlers are killed, and stopped until others have taken over, while they
//! handle (schedule 20).
//!
//! A handler that something is to happen to says that it is at it and waits; the store is asked
//! whether it holds its target. What it staged must not land, and whoever takes over must handle
//! the same events again, under the same keys.

use std::time::Duration;

use super::Scenario;
use crate::cast::{self, REACTOR, Seat};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::Load;
use crate::stage::Stage;

pub(super) struct Reactions;

impl Scenario for Reactions {
    fn name(&self) -> &'static str {
        "reactions"
    }

    /// Every event is handled twice, each time in a commit of its own: committers take their time.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), reacts: true, ..Load::default() }
    }

    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves_and_reactors(workers)
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        stage.injure_two_holders()?;
        if let Some(reactor) = stage.any(REACTOR) {
            stage.kill_and_replace(&reactor, Fault::Killed)?;
            stage.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let each = seconds.div_ceil(6);
        Minimums {
            handled: 20 * seconds,
            repeated: 2 * each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    }
}
