//! Workers stopped (SIGSTOP) and continued: consumers that hold leases until others have their
//! items, others in the middle of anything (schedule 20).
//!
//! A stopped worker does not know that time has passed. Its commits after it continues must be
//! refused.

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{COMMITTER, CONSUMER, VICTIM};
use crate::worker_spec::{Holds, Role};

pub(super) const STOPPED: Scenario = Scenario {
    name: "stopped",
    besides: &[(VICTIM, Role::Consumer(Holds::Alone), 2)],
    injure: |supervisor| {
        if let Some((who, leases)) = supervisor.wait_for_holder()? {
            supervisor.stop_while(&who, Fault::StoppedHolding, |supervisor| {
                supervisor.wait_for_takeover(&leases)
            })?;
            supervisor.release(&who);
        }
        let slot = [COMMITTER, CONSUMER][usize::from(supervisor.rng.one_in(2))];
        if let Some(worker) = supervisor.any(slot) {
            let lease = supervisor.lease();
            supervisor.stop_while(&worker, Fault::Stopped, |supervisor| {
                supervisor.work_for(lease * 3 / 2);
            });
            supervisor.wait_for_progress(Fault::Stopped);
        }
        Ok(())
    },
    minimums: |seconds| {
        let stops = seconds.div_ceil(4);
        Minimums {
            faults: vec![(Fault::StoppedHolding, stops)],
            refused_late: stops,
            ..Minimums::default()
        }
    },
    ..Scenario::QUIET
};
