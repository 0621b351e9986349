//! The only place where a record key of a claim is spelled.
//!
//! Everything that Tidelock names for itself begins with `~`.

use tidelock_store::{RecordKey, Result, StoreError};

use super::ClaimKey;

/// The kinds of claims, as their keys begin.
pub(super) const IDEMPOTENCY: &str = "idempotency";

/// Where it says who has a claim, and what came of it.
pub(super) fn record(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim", key)
}

/// There for as long as the claimant may work.
pub(super) fn lease(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-lease", key)
}

fn under(place: &str, key: &ClaimKey) -> Result<RecordKey> {
    if key.is_hollow() {
        return Err(StoreError::invalid(format!(
            "claim {key:?}: a part of its key is empty and names nothing"
        )));
    }
    RecordKey::new(format!("{place}/{key}")).map_err(|error| error.about(format_args!("claim {key:?}")))
}
