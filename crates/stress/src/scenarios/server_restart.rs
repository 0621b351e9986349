//! The server stopped in immediate mode under load, and started again (schedules 10 and 12).
//!
//! Commits in flight are lost, or happened without an answer; sending them again must tell which.

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::supervisor::Supervisor;
use crate::target::Needs;
use crate::worker_spec::Load;

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

    fn injure(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Failure> {
        let pause = supervisor.rng.millis(200, 1_000);
        supervisor.work_for(pause);
        supervisor.restart_server()?;
        supervisor.wait_for_progress(Fault::ServerRestarted);
        Ok(())
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        let faults = vec![(Fault::ServerRestarted, seconds.div_ceil(6))];
        Minimums { faults, failed: 1, ..Minimums::default() }
    }
}
