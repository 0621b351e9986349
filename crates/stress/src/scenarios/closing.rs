//! Accounts whose books are closed, restarted and trimmed to a window while others book in them, by
//! processes that are killed meanwhile (schedule 32).
//!
//! The archive is the closer's journal. Another closer finishes what a dead one began, once its
//! lease has expired.

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{BOOKER, CLOSER};
use crate::worker_spec::{Load, Role};

pub(super) const CLOSING: Scenario = Scenario {
    name: "closing",
    load: || Load { closes: true, ..Load::slow() },
    besides: &[(BOOKER, Role::Booker, 2), (CLOSER, Role::Closer, 2)],
    injure: |supervisor| {
        let pause = supervisor.rng.millis(100, 500);
        supervisor.work_for(pause);
        let slot = if supervisor.rng.one_in(4) { BOOKER } else { CLOSER };
        supervisor.kill_any(slot)
    },
    minimums: |seconds| {
        let faults = vec![(Fault::Killed, seconds.div_ceil(2))];
        Minimums { booked: 10 * seconds, closed: 2 * seconds, faults, ..Minimums::default() }
    },
    ..Scenario::QUIET
};
