//! Connections cut and replies swallowed, by a proxy between the workers and the server (schedules
//! 10 and 12).
//!
//! The server is well all the time, and hears requests whose answers nobody gets. Callers that wait
//! in vain give up, and their commits may land after that.

use std::time::Duration;

use tidelock_test_postgres::Proxy;

use super::Scenario;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::floors::Minimums;
use crate::part::Load;
use crate::roles::WATERMARK;
use crate::stage::Stage;
use crate::target::Needs;

pub(super) struct BadNetwork;

type Injury = (Fault, fn(&Proxy));

/// What can be done to a network, each for a while.
const INJURIES: [Injury; 4] = [
    (Fault::RepliesSwallowed, Proxy::swallow_replies),
    (Fault::Cut, Proxy::cut),
    (Fault::Refused, Proxy::refuse),
    (Fault::Stalled, Proxy::stall),
];

impl Scenario for BadNetwork {
    fn name(&self) -> &'static str {
        "bad-network"
    }

    fn needs(&self) -> Needs {
        Needs::Network
    }

    fn load(&self) -> Load {
        // Shorter than the longest injury, so that some give up before it is healed.
        Load { patience: Duration::from_millis(600), ..Load::default() }
    }

    fn injure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        // Each in its turn.
        let (fault, injure) = INJURIES
            .into_iter()
            .min_by_key(|(fault, _)| stage.faults.of(*fault))
            .expect("there are some");
        let (time, pause) = (stage.dice.millis(20, 900), stage.dice.millis(20, 200));
        stage.cut_after_request(WATERMARK.as_bytes());
        stage.injure_network(fault, injure, time);
        stage.wait_for_progress(fault);
        stage.work_for(pause);
        Ok(())
    }

    fn floors(&self, seconds: u64) -> Minimums {
        let few = seconds.div_ceil(8);
        let faults = vec![(Fault::CutAfterRequest, few), (Fault::RepliesSwallowed, few)];
        Minimums { faults, unknown: few, ..Minimums::default() }
    }
}
