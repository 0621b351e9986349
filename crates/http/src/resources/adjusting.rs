//! What operators do to many items at once: the same answer for leases and reactions.

use serde::Serialize;
use tidelock::Adjusted;
use utoipa::ToSchema;

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Adjusted)]
pub(crate) struct AdjustedShown {
    /// How many passed the filter.
    matched: u64,
    /// How many were changed by it.
    changed: u64,
    /// Whether it was only asked what would be done.
    dry_run: bool,
}

impl AdjustedShown {
    /// So many would have been meant.
    pub(super) fn would(matched: u64) -> Self {
        Self { matched, changed: 0, dry_run: true }
    }
}

impl From<Adjusted> for AdjustedShown {
    fn from(adjusted: Adjusted) -> Self {
        Self { matched: adjusted.matched, changed: adjusted.changed, dry_run: false }
    }
}
