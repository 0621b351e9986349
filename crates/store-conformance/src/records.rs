//! Record cases: writes, counters, expiry and reads.

mod add;
pub(crate) mod expect;
mod expiry;
mod read;
mod revision;

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    [revision::cases(), expect::cases(), add::cases(), expiry::cases(), read::cases()]
        .into_iter()
        .flatten()
        .collect()
}
