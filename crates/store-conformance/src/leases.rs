//! Lease cases: how items become due, which worker gets them, how leases end, and bulk operations.

mod adjust;
mod again;
mod grant;
mod list;
mod lost;
mod order;
mod renew;
mod restore;
mod settle;
mod wake;

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        wake::cases(),
        grant::cases(),
        order::cases(),
        renew::cases(),
        settle::cases(),
        again::cases(),
        lost::cases(),
        list::cases(),
        adjust::cases(),
        restore::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
