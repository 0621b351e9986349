//! Record cases: writes, counters, expiry and reads.

mod add;
mod edit;
pub(crate) mod expect;
mod expiry;
mod rate;
mod read;
mod revision;

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        revision::cases(),
        expect::cases(),
        add::cases(),
        rate::cases(),
        edit::cases(),
        expiry::cases(),
        read::cases(),
    ];
    cases.into_iter().flatten().collect()
}
