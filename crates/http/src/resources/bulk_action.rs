//! The response to operators' bulk actions: the same for leases and reactions.

use serde::Serialize;
use tidelock::Missing;
use tidelock::problem::Problem;
use tidelock::store::Adjusted;
use utoipa::ToSchema;

/// The result of a bulk action.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Adjusted)]
pub(crate) struct BulkActionDto {
    /// How many items matched the filter.
    matched: u64,
    /// How many were changed.
    changed: u64,
    /// Whether this was a dry run.
    dry_run: bool,
}

impl BulkActionDto {
    /// The result of a dry run.
    pub(super) fn would(matched: u64) -> Self {
        Self { matched, changed: 0, dry_run: true }
    }

    /// Whether nothing matched.
    pub(super) fn is_none(&self) -> bool {
        self.matched == 0
    }
}

impl From<Adjusted> for BulkActionDto {
    fn from(adjusted: Adjusted) -> Self {
        Self { matched: adjusted.matched, changed: adjusted.changed, dry_run: false }
    }
}

/// The problem for a name that does not exist.
pub(super) fn no_such(missing: &Missing) -> Problem {
    let (code, list) = match missing {
        Missing::Reaction { .. } => ("no-reaction", "GET /v1/reactions lists the registered ones"),
        Missing::Workflow { .. } => ("no-workflow", "GET /v1/runs lists the runs of all workflows"),
        Missing::Target { .. } => {
            ("no-target", "GET /v1/reactions/{reaction}/targets lists the existing ones")
        }
        Missing::Queue { .. } => ("no-queue", "GET /v1/leases lists the existing ones"),
        Missing::Item { .. } => ("no-item", "GET /v1/leases lists the existing ones"),
        _ => ("no-lane", "GET /v1/leases lists the existing ones"),
    };
    Problem::not_found(code, format!("{missing}: {list}"))
}
