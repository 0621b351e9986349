//! Many streams, and nobody much in anybody's way: whatever goes wrong here goes wrong without a
//! fault.

use super::Scenario;
use crate::floors::Minimums;
use crate::part::Load;

pub(super) struct ManyStreams;

impl Scenario for ManyStreams {
    fn name(&self) -> &'static str {
        "many-streams"
    }

    fn load(&self) -> Load {
        Load { streams: 300, callers: 12, ..Load::default() }
    }

    fn floors(&self, _: u64) -> Minimums {
        Minimums::default()
    }
}
