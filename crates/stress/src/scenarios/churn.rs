//! Short leases that end in every way, while committers wake the same few items again and again.

use std::time::Duration;

use super::Scenario;
use crate::minimums::Minimums;
use crate::worker_spec::{Exits, Load};

pub(super) struct Churn;

impl Scenario for Churn {
    fn name(&self) -> &'static str {
        "churn"
    }

    fn load(&self) -> Load {
        Load {
            streams: 12,
            lease: Duration::from_millis(150),
            exits: Exits::All,
            ..Load::default()
        }
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        Minimums { leases: 5 * seconds, ..Minimums::default() }
    }
}
