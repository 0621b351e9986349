//! Applications whose handlers are killed, and stopped until others have taken over (schedule 20).
//!
//! A handler of a victim reports and waits; the supervisor checks in the store that it holds its
//! target. What it staged must not land, and its successor must handle the same events again, under
//! the same keys.

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{REACTOR, VICTIM};
use crate::worker_spec::{Holds, Load, Role};

pub(super) const REACTIONS: Scenario = Scenario {
    name: "reactions",
    load: || Load { reacts: true, ..Load::slow() },
    besides: &[(REACTOR, Role::Reactor(Holds::Never), 2), (VICTIM, Role::Reactor(Holds::Alone), 2)],
    injure: |supervisor| {
        supervisor.injure_two_holders()?;
        supervisor.kill_any(REACTOR)
    },
    minimums: |seconds| {
        let each = seconds.div_ceil(6);
        Minimums {
            handled: 20 * seconds,
            repeated: 2 * each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    },
    ..Scenario::QUIET
};
