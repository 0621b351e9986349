//! One stream that all committers append to: of those that expect the same version one succeeds,
//! and the others get a conflict.

use super::Scenario;
use crate::minimums::Minimums;
use crate::worker_spec::Load;

pub(super) const HOT_STREAM: Scenario = Scenario {
    name: "hot-stream",
    load: || Load { streams: 1, ..Load::default() },
    minimums: |seconds| Minimums { refused: seconds, ..Minimums::default() },
    ..Scenario::QUIET
};
