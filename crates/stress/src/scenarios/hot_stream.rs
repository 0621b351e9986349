//! One stream that all committers append to: of those that expect the same version one succeeds,
//! and the others get a conflict.

use super::Scenario;
use crate::minimums::Minimums;
use crate::worker_spec::Load;

pub(super) struct HotStream;

impl Scenario for HotStream {
    fn name(&self) -> &'static str {
        "hot-stream"
    }

    fn load(&self) -> Load {
        Load { streams: 1, ..Load::default() }
    }

    fn minimums(&self, seconds: u64) -> Minimums {
        Minimums { refused: seconds, ..Minimums::default() }
    }
}
