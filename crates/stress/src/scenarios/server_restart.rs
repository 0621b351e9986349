//! The server stopped in immediate mode under load, and started again (schedules 10 and 12).
//!
//! Commits in flight are lost, or happened without an answer; sending them again must tell which.

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::target::Needs;

pub(super) const SERVER_RESTART: Scenario = Scenario {
    name: "server-restart",
    needs: Needs::Server,
    injure: |supervisor| {
        let pause = supervisor.rng.millis(200, 1_000);
        supervisor.work_for(pause);
        supervisor.restart_server()?;
        supervisor.wait_for_progress(Fault::ServerRestarted);
        Ok(())
    },
    minimums: |seconds| {
        let faults = vec![(Fault::ServerRestarted, seconds.div_ceil(6))];
        Minimums { faults, failed: 1, ..Minimums::default() }
    },
    ..Scenario::QUIET
};
