//! One stream that everybody appends to: of those who expect the same version one gets through, and
//! the others hear why.

use super::Scenario;
use crate::floors::Minimums;
use crate::part::Load;

pub(super) struct HotStream;

impl Scenario for HotStream {
    fn name(&self) -> &'static str {
        "hot-stream"
    }

    fn load(&self) -> Load {
        Load { streams: 1, ..Load::default() }
    }

    fn floors(&self, seconds: u64) -> Minimums {
        Minimums { refused: seconds, ..Minimums::default() }
    }
}
