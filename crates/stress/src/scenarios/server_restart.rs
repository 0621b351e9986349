//! The server stopped in immediate mode in the middle of everything, and started again (schedules
//! 10 and 12).
//!
//! Commits that were on their way are lost, or happened and nobody heard; both must be told apart
//! by sending them again.

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::Load;
use crate::stage::Stage;
use crate::target::Needs;

pub(super) struct ServerRestart;

impl Scenario for ServerRestart {
    fn name(&self) -> &'static str {
        "server-restart"
    }

    fn needs(&self) -> Needs {
        Needs::Server
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        let pause = stage.dice.millis(200, 1_000);
        stage.work_for(pause);
        stage.restart_server()?;
        stage.wait_for_progress(Fault::ServerRestarted);
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let faults = vec![(Fault::ServerRestarted, seconds.div_ceil(6))];
        Minimums { faults, failed: 1, ..Minimums::default() }
    }
}
