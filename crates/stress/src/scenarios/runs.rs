//! Runs whose processes are killed, and stopped until others have taken over, in the middle of
//! steps; starters are killed too, and so is the server, where there is one (schedules 35, 36 and
//! 88).
//!
//! A step of a victim reports and waits; the supervisor checks in the store that its process holds
//! the run. Its effect must be repeated under the same key, or never, or happen once, according to
//! the step.

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{RUNNER, STARTER, VICTIM};
use crate::worker_spec::{Holds, Load, Role};

pub(super) const RUNS: Scenario = Scenario {
    name: "runs",
    load: || Load { runs: true, ..Load::slow() },
    besides: &[
        (STARTER, Role::Starter, 1),
        (RUNNER, Role::Runner(Holds::Never), 2),
        (VICTIM, Role::Runner(Holds::Alone), 2),
    ],
    injure: |supervisor| {
        supervisor.injure_two_holders()?;
        let slot = [STARTER, RUNNER][usize::from(supervisor.rng.one_in(2))];
        supervisor.kill_any(slot)?;
        if supervisor.target.server().is_some() && supervisor.rng.one_in(2) {
            supervisor.restart_server()?;
            supervisor.wait_for_progress(Fault::ServerRestarted);
        }
        Ok(())
    },
    minimums: |seconds| {
        let each = seconds.div_ceil(6);
        Minimums {
            runs_finished: 4 * seconds,
            repeated: each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    },
    ..Scenario::QUIET
};
