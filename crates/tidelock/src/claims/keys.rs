//! Record keys of this module, spelled only here.
//!
//! Names that Tidelock uses internally start with `~`.

use tidelock_store::{RecordKey, Result, Revision, StoreError, Timestamp};
use uuid::Uuid;

use super::ClaimKey;

/// The kinds of claims: the first part of their keys.
pub(super) const IDEMPOTENCY: &str = "idempotency";
pub(super) const SINGLETON: &str = "singleton";
pub(super) const LOCK: &str = "lock";
pub(super) const QUOTA: &str = "quota";
pub(super) const RATE: &str = "rate";
pub(super) const LAST_WRITE: &str = "last-write";
/// Kind of the operation records of released claims.
pub(super) const RELEASE: &str = "release";

/// Key prefix of all claim records.
pub(super) const CLAIMS: &str = "~claim/";

/// Key prefix of the marks that a lock has waiters.
pub(super) const WAITER_MARKS: &str = "~claim-line/";

/// Key prefix of all quota windows.
const WINDOWS: &str = "~claim-window/";
const TAKEN: &str = "~claim-taken/";
const RATES: &str = "~claim-rate/";

/// Record of a claim: its claimant and result.
pub(super) fn record(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim", key)
}

/// Record of a claim's lease. It directly follows the claim in key order, because the two are
/// written together and neighbors are on the same index page. No claim has this key, since no part
/// of a claim's key is empty.
pub(super) fn lease(key: &ClaimKey) -> Result<RecordKey> {
    lease_of(&record(key)?)
}

/// Mark that a lock has waiters; its revisions number the waiters.
pub(super) fn waiter_mark(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-line", key)
}

/// Slot of a waiter in the queue of a lock. Slots are reused, so that a queue leaves nothing behind
/// that grows.
pub(super) fn queue_slot(key: &ClaimKey, slot: usize) -> Result<RecordKey> {
    under("~claim-place", &key.clone().part(&slot))
}

/// Key prefix of the queue slots of a lock.
pub(super) fn queue_slots(key: &ClaimKey) -> String {
    format!("~claim-place/{key}/")
}

/// Key prefix of the queue slots of a lock, by its whole name.
pub(super) fn queue_slots_of(lock: &str) -> String {
    format!("~claim-place/{lock}/")
}

/// Returns the whole name of the lock that a mark is for.
pub(super) fn lock_of_mark(mark: &RecordKey) -> &str {
    mark.as_str().strip_prefix(WAITER_MARKS).unwrap_or(mark.as_str())
}

/// Record of a claim, by its whole name.
pub(super) fn named(claim: &str) -> Result<RecordKey> {
    if claim.split('/').any(str::is_empty) {
        return Err(empty_part(claim));
    }
    RecordKey::new(format!("{CLAIMS}{claim}"))
        .map_err(|error| error.about(format_args!("claim {claim:?}")))
}

/// Key prefix of quota windows, narrowed by a prefix of the quota's key.
pub(super) fn windows(prefix: &str) -> String {
    format!("{WINDOWS}{prefix}")
}

/// Returns the whole name of the quota that a window belongs to.
pub(super) fn quota_of_window(window: &RecordKey) -> &str {
    window.as_str().strip_prefix(WINDOWS).unwrap_or(window.as_str())
}

/// Record of a quota's open window; its revision identifies the window.
pub(super) fn window(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-window", key)
}

/// Record of a quota's open window, by the quota's whole name.
pub(super) fn window_of(quota: &str) -> Result<RecordKey> {
    of(WINDOWS, quota)
}

/// Counter of the units taken in a quota's window.
pub(super) fn taken(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-taken", key)
}

/// Counter of the units taken, by the quota's whole name.
pub(super) fn taken_of(quota: &str) -> Result<RecordKey> {
    of(TAKEN, quota)
}

/// Record of a rate limit: when everything taken will have been replenished.
pub(super) fn rate(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-rate", key)
}

/// Key prefix of the counters of units taken, of all quotas.
pub(crate) fn quotas_taken() -> String {
    TAKEN.to_owned()
}

/// Returns the whole name of the quota whose units a record counts.
pub(crate) fn quota_of_taken(taken: &RecordKey) -> Option<&str> {
    taken.as_str().strip_prefix(TAKEN)
}

/// Key prefix of the records of all rate limits.
pub(crate) fn rates() -> String {
    RATES.to_owned()
}

/// Returns the whole name of the rate limit of a record.
pub(crate) fn rate_of(record: &RecordKey) -> Option<&str> {
    record.as_str().strip_prefix(RATES)
}

/// Ledger: the times at which reservations of a quota end.
pub(super) fn ledger(quota: &str) -> Result<RecordKey> {
    of("~claim-ledger/", quota)
}

/// Counter of the units of a quota reserved until one time, in one window.
pub(super) fn bucket(quota: &str, window: Revision, end: Timestamp) -> Result<RecordKey> {
    of("~claim-bucket/", &format!("{quota}/{}/{}", window.get(), end.micros()))
}

/// Record of a reservation.
pub(super) fn reservation(quota: &str, id: Uuid) -> Result<RecordKey> {
    of("~claim-reservation/", &format!("{quota}/{id}"))
}

/// Mark of a refunded grant.
pub(super) fn refund(key: &ClaimKey, grant: Uuid) -> Result<RecordKey> {
    under("~claim-refund", &key.clone().part(&grant))
}

/// Record of an operation's result on a claim.
pub(super) fn operation(key: &ClaimKey, operation: &str) -> Result<RecordKey> {
    under("~claim-operation", &key.clone().part(&operation))
}

/// Record of a last-write-wins register.
pub(super) fn last_write(key: &ClaimKey) -> Result<RecordKey> {
    under("~last-write", key)
}

/// Returns a claim's whole name from its record.
pub(super) fn name_of(record: &RecordKey) -> &str {
    record.as_str().strip_prefix(CLAIMS).unwrap_or(record.as_str())
}

/// Lease of a claim record.
pub(super) fn lease_of(record: &RecordKey) -> Result<RecordKey> {
    RecordKey::new(format!("{record}/"))
}

/// Whether this is a lease and not a claim.
pub(super) fn is_lease(record: &RecordKey) -> bool {
    record.as_str().ends_with('/')
}

fn of(prefix: &str, name: &str) -> Result<RecordKey> {
    RecordKey::new(format!("{prefix}{name}"))
        .map_err(|error| error.about(format_args!("claim {name:?}")))
}

fn under(prefix: &str, key: &ClaimKey) -> Result<RecordKey> {
    if key.is_incomplete() {
        return Err(empty_part(key.as_str()));
    }
    RecordKey::new(format!("{prefix}/{key}"))
        .map_err(|error| error.about(format_args!("claim {key:?}")))
}

fn empty_part(key: &str) -> StoreError {
    StoreError::invalid(format!("claim {key:?}: a part of its key is empty and names nothing"))
}
