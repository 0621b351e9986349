//! What operators do to many items at once: the same answer for leases and reactions.

use serde::Serialize;
use tidelock::{Adjusted, Missing};
use utoipa::ToSchema;

use crate::problem::Problem;

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Adjusted)]
pub(crate) struct AdjustedDto {
    /// How many passed the filter.
    matched: u64,
    /// How many were changed by it.
    changed: u64,
    /// Whether it was only asked what would be done.
    dry_run: bool,
}

impl AdjustedDto {
    /// So many would have been meant.
    pub(super) fn would(matched: u64) -> Self {
        Self { matched, changed: 0, dry_run: true }
    }

    /// Whether nothing was meant.
    pub(super) fn is_none(&self) -> bool {
        self.matched == 0
    }
}

impl From<Adjusted> for AdjustedDto {
    fn from(adjusted: Adjusted) -> Self {
        Self { matched: adjusted.matched, changed: adjusted.changed, dry_run: false }
    }
}

impl From<Missing> for Problem {
    fn from(missing: Missing) -> Self {
        let (code, list) = match missing {
            Missing::Reaction { .. } => {
                ("no-reaction", "GET /v1/reactions lists those that were registered")
            }
            Missing::Target { .. } => {
                ("no-target", "GET /v1/reactions/{reaction}/targets lists those that there are")
            }
            Missing::Queue { .. } => ("no-queue", "GET /v1/leases lists what there is"),
            Missing::Item { .. } => ("no-item", "GET /v1/leases lists what there is"),
            _ => ("no-lane", "GET /v1/leases lists what there is"),
        };
        Self::not_found(code, format!("{missing}: {list}"))
    }
}
