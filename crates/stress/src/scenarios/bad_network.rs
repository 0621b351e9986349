//! Faulty network: connections cut and replies dropped, by a proxy between the workers and the
//! server (schedules 10 and 12).
//!
//! The server is healthy all the time, and receives requests whose answers are lost. Callers time
//! out, and their commits may land after that.

use std::time::Duration;

use tidelock_test_postgres::Proxy;

use super::Scenario;
use crate::faults::Fault;
use crate::minimums::Minimums;
use crate::roles::WATERMARK;
use crate::target::Needs;
use crate::worker_spec::Load;

type Injury = (Fault, fn(&Proxy));

/// Network faults, each for a while.
const INJURIES: [Injury; 4] = [
    (Fault::RepliesSwallowed, Proxy::swallow_replies),
    (Fault::Cut, Proxy::cut),
    (Fault::Refused, Proxy::refuse),
    (Fault::Stalled, Proxy::stall),
];

pub(super) const BAD_NETWORK: Scenario = Scenario {
    name: "bad-network",
    needs: Needs::Network,
    // Shorter than the longest fault, so that some calls time out before it ends.
    load: || Load { patience: Duration::from_millis(600), ..Load::default() },
    injure: |supervisor| {
        // Each in turn.
        let (fault, injure) = INJURIES
            .into_iter()
            .min_by_key(|(fault, _)| supervisor.faults.of(*fault))
            .expect("there are some");
        let (time, pause) = (supervisor.rng.millis(20, 900), supervisor.rng.millis(20, 200));
        supervisor.cut_after_request(WATERMARK.as_bytes());
        supervisor.injure_network(fault, injure, time);
        supervisor.wait_for_progress(fault);
        supervisor.work_for(pause);
        Ok(())
    },
    minimums: |seconds| {
        let few = seconds.div_ceil(8);
        let faults = vec![(Fault::CutAfterRequest, few), (Fault::RepliesSwallowed, few)];
        Minimums { faults, unknown: few, ..Minimums::default() }
    },
    ..Scenario::QUIET
};
