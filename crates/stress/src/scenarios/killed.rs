//! Workers killed: consumers while they hold leases, committers in the middle of their commits
//! (schedules 23, 58 and 99).
//!
//! A victim reports that it holds leases and waits; the supervisor checks it in the store; then it
//! is killed.

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{COMMITTER, VICTIM};
use crate::worker_spec::{Holds, Role};

pub(super) const KILLED: Scenario = Scenario {
    name: "killed",
    besides: &[(VICTIM, Role::Consumer(Holds::AmongOthers), 2)],
    injure: |supervisor| {
        if let Some((who, _)) = supervisor.wait_for_holder()? {
            supervisor.kill_and_replace(&who, Fault::KilledHolding)?;
        }
        let pause = supervisor.rng.millis(10, 250);
        supervisor.work_for(pause);
        supervisor.kill_any(COMMITTER)
    },
    minimums: |seconds| {
        let faults =
            vec![(Fault::KilledHolding, seconds.div_ceil(3)), (Fault::Killed, seconds.div_ceil(3))];
        Minimums { faults, ..Minimums::default() }
    },
    ..Scenario::QUIET
};
