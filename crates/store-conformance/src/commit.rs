//! Commit cases: atomicity, judgement, replay, and locks built from commits.

mod atomic;
mod judgement;
mod locks;
mod replay;

use crate::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    [atomic::cases(), judgement::cases(), replay::cases(), locks::cases()]
        .into_iter()
        .flatten()
        .collect()
}
