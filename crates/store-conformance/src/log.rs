//! Log cases: appends, deduplication, reads, closing and trimming.

mod append;
mod dedupe;
pub(crate) mod expect;
mod feed;
mod heads;
mod read;
mod trim;

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        append::cases(),
        expect::cases(),
        dedupe::cases(),
        read::cases(),
        feed::cases(),
        heads::cases(),
        trim::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
