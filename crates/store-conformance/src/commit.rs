//! Cases about the commit: all or nothing, how it is judged, how it is sent again, and what is
//! built from it.

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
