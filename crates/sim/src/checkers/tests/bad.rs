//! Histories that must not happen.

use super::script::Script;
use super::{accounts, commits, feed, holders, objects, transactions};

/// A history that shows an anomaly.
pub(super) struct Bad {
    pub(super) anomaly: &'static str,
    pub(super) name: &'static str,
    pub(super) script: Script,
}

/// A history that shows this anomaly.
pub(super) fn bad(
    anomaly: &'static str,
    name: &'static str,
    write: impl FnOnce(&mut Script),
) -> Bad {
    let mut script = Script::default();
    write(&mut script);
    Bad { anomaly, name, script }
}

pub(super) fn all() -> Vec<Bad> {
    let families = [
        accounts::bad(),
        commits::bad(),
        feed::bad(),
        holders::bad(),
        objects::bad(),
        transactions::bad(),
    ];
    families.into_iter().flatten().collect()
}
