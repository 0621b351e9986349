//! Short leases that end in every way, while committers wake the same few items again and again.

use std::time::Duration;

use super::Scenario;
use crate::minimums::Minimums;
use crate::worker_spec::{Exits, Load};

pub(super) const CHURN: Scenario = Scenario {
    name: "churn",
    load: || Load {
        streams: 12,
        lease: Duration::from_millis(150),
        exits: Exits::All,
        ..Load::default()
    },
    minimums: |seconds| Minimums { leases: 5 * seconds, ..Minimums::default() },
    ..Scenario::QUIET
};
