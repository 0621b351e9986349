//! A few hot scopes changed by many processes, which are killed, and stopped for longer than a
//! change may take.
//!
//! Every change has an id. A change that a dead process requested is requested again under it: by
//! then it was done, or is done now.

use super::Scenario;
use crate::board::BUDGET;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::CHANGER;
use crate::worker_spec::{Load, Role};

pub(super) const SCOPES: Scenario = Scenario {
    name: "scopes",
    load: || Load { scopes: true, ..Load::slow() },
    besides: &[(CHANGER, Role::Changer, 3)],
    injure: |supervisor| {
        supervisor.kill_any(CHANGER)?;
        if let Some(changer) = supervisor.any(CHANGER) {
            supervisor.stop_while(&changer, Fault::Stopped, |supervisor| {
                supervisor.work_for(BUDGET * 5 / 4);
            });
            supervisor.wait_for_progress(Fault::Stopped);
        }
        Ok(())
    },
    minimums: |seconds| {
        let each = seconds.div_ceil(3);
        Minimums {
            done: 10 * seconds,
            declined: seconds,
            faults: vec![(Fault::Killed, each), (Fault::Stopped, each)],
            ..Minimums::default()
        }
    },
    ..Scenario::QUIET
};
