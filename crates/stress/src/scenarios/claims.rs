//! Keys, locks and quotas whose claimants are killed, and stopped until others have taken over,
//! while they hold them (schedules 58 and 67).
//!
//! A victim reports that it holds a lock and waits; the supervisor checks it in the store. Its late
//! write must be refused, and what it held must become free by itself.

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::plan::{CLAIMANT, VICTIM};
use crate::worker_spec::{Holds, Load, Role};

pub(super) const CLAIMS: Scenario = Scenario {
    name: "claims",
    load: || Load { claims: true, ..Load::slow() },
    besides: &[
        (CLAIMANT, Role::Claimant(Holds::Never), 2),
        (VICTIM, Role::Claimant(Holds::Alone), 2),
    ],
    injure: |supervisor| {
        supervisor.injure_two_holders()?;
        supervisor.kill_any(CLAIMANT)
    },
    minimums: |seconds| {
        let each = seconds.div_ceil(6);
        Minimums {
            done: 5 * seconds,
            told: 2 * seconds,
            took: 2 * seconds,
            refused_late: each,
            faults: vec![(Fault::KilledHolding, each), (Fault::StoppedHolding, each)],
            ..Minimums::default()
        }
    },
    ..Scenario::QUIET
};
