//! A few hot scopes that many processes change, which are killed, and stopped for longer than a
//! change may take, in the middle of anything.
//!
//! Every change has an id. What a dead process asked for is asked for again under it: by then it
//! was done, or is done now.

use std::time::Duration;

use super::Scenario;
use crate::board::BUDGET;
use crate::cast::{self, CHANGER, Seat};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::Load;
use crate::stage::Stage;

pub(super) struct Scopes;

impl Scenario for Scopes {
    fn name(&self) -> &'static str {
        "scopes"
    }

    /// A hot scope takes many commits: committers take their time.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), scopes: true, ..Load::default() }
    }

    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves_and_changers(workers)
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        if let Some(changer) = stage.any(CHANGER) {
            stage.kill_and_replace(&changer, Fault::Killed)?;
            stage.wait_for_progress(Fault::Killed);
        }
        if let Some(changer) = stage.any(CHANGER) {
            stage.stop_while(&changer, Fault::Stopped, |stage| stage.work_for(BUDGET * 5 / 4));
            stage.wait_for_progress(Fault::Stopped);
        }
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let each = seconds.div_ceil(3);
        Minimums {
            done: 10 * seconds,
            declined: seconds,
            faults: vec![(Fault::Killed, each), (Fault::Stopped, each)],
            ..Minimums::default()
        }
    }
}
