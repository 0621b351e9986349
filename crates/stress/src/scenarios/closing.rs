//! Accounts whose books are closed, restarted and cut to a window while others book in them, by
//! processes that are killed in the middle of it (schedule 32).
//!
//! The archive is the closer's journal. What a dead closer began another finishes, once its lease
//! has run out.

use std::time::Duration;

use super::Scenario;
use crate::cast::{self, BOOKER, CLOSER, Seat};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::Load;
use crate::stage::Stage;

pub(super) struct Closing;

impl Scenario for Closing {
    fn name(&self) -> &'static str {
        "closing"
    }

    /// A closing takes several commits: committers take their time.
    fn load(&self) -> Load {
        Load { callers: 2, pause: Duration::from_millis(40), closes: true, ..Load::default() }
    }

    fn cast(&self, workers: usize) -> Vec<Seat> {
        cast::halves_and_closers(workers)
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        let pause = stage.dice.millis(100, 500);
        stage.work_for(pause);
        let seat = if stage.dice.one_in(4) { BOOKER } else { CLOSER };
        if let Some(worker) = stage.any(seat) {
            stage.kill_and_replace(&worker, Fault::Killed)?;
            stage.wait_for_progress(Fault::Killed);
        }
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let faults = vec![(Fault::Killed, seconds.div_ceil(2))];
        Minimums { booked: 10 * seconds, closed: 2 * seconds, faults, ..Minimums::default() }
    }
}
