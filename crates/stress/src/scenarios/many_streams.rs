//! Many streams with little contention: the baseline without faults.

use super::Scenario;
use crate::minimums::Minimums;
use crate::worker_spec::Load;

pub(super) struct ManyStreams;

impl Scenario for ManyStreams {
    fn name(&self) -> &'static str {
        "many-streams"
    }

    fn load(&self) -> Load {
        Load { streams: 300, callers: 12, ..Load::default() }
    }

    fn minimums(&self, _: u64) -> Minimums {
        Minimums::default()
    }
}
