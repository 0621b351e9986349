//! Many streams with little contention: the baseline without faults.

use super::Scenario;
use crate::worker_spec::Load;

pub(super) const MANY_STREAMS: Scenario = Scenario {
    name: "many-streams",
    load: || Load { streams: 300, callers: 12, ..Load::default() },
    ..Scenario::QUIET
};
