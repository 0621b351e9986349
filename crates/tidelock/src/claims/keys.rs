//! The only place where a record key of a claim is spelled.
//!
//! Everything that Tidelock names for itself begins with `~`.

use tidelock_store::{RecordKey, Result, Revision, StoreError, Timestamp};
use uuid::Uuid;

use super::ClaimKey;

/// The kinds of claims, as their keys begin.
pub(super) const IDEMPOTENCY: &str = "idempotency";
pub(super) const SINGLETON: &str = "singleton";
pub(super) const LOCK: &str = "lock";
pub(super) const QUOTA: &str = "quota";
pub(super) const LAST_WRITE: &str = "last-write";
/// What is noted of an operation that freed a claim, by the name of that claim.
pub(super) const RELEASE: &str = "release";

/// What the keys of all claims that somebody can be at begin with.
pub(super) const CLAIMS: &str = "~claim/";

/// What the keys begin with that say that somebody waits for a lock.
pub(super) const LINES: &str = "~claim-line/";

/// What the keys of all windows of quotas begin with.
const WINDOWS: &str = "~claim-window/";

/// Where it says who has a claim, and what came of it.
pub(super) fn record(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim", key)
}

/// There for as long as the claimant may work. It stands right behind the claim, because the two
/// are written together, and neighbours are on the same page of an index; and no claim has this
/// key, since no part of a claim's key is empty.
pub(super) fn lease(key: &ClaimKey) -> Result<RecordKey> {
    lease_of(&record(key)?)
}

/// There for as long as anybody waits for a lock; its revisions number those who come.
pub(super) fn line(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-line", key)
}

/// The places in the line for a lock. They are used again and again, so that a line leaves nothing
/// behind that grows.
pub(super) fn place(key: &ClaimKey, place: usize) -> Result<RecordKey> {
    under("~claim-place", &key.clone().part(&place))
}

/// What the places in the line for a lock begin with.
pub(super) fn places(key: &ClaimKey) -> String {
    format!("~claim-place/{key}/")
}

/// The same, of the lock with this whole name.
pub(super) fn places_of(lock: &str) -> String {
    format!("~claim-place/{lock}/")
}

/// The lock that a line is for, by its whole name.
pub(super) fn of_line(line: &RecordKey) -> &str {
    line.as_str().strip_prefix(LINES).unwrap_or(line.as_str())
}

/// Where it says who has the claim with this whole name.
pub(super) fn named(claim: &str) -> Result<RecordKey> {
    if claim.split('/').any(str::is_empty) {
        return Err(hollow(claim));
    }
    RecordKey::new(format!("{CLAIMS}{claim}"))
        .map_err(|error| error.about(format_args!("claim {claim:?}")))
}

/// What the windows of quotas begin with whose keys begin like this.
pub(super) fn windows(prefix: &str) -> String {
    format!("{WINDOWS}{prefix}")
}

/// The quota that a window is of, as it is shown to people.
pub(super) fn of_window(window: &RecordKey) -> &str {
    window.as_str().strip_prefix(WINDOWS).unwrap_or(window.as_str())
}

/// There for as long as a quota's window is open; its revision tells one window from every other.
pub(super) fn window(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-window", key)
}

/// The same, of the quota with this whole name.
pub(super) fn window_of(quota: &str) -> Result<RecordKey> {
    of(WINDOWS, quota)
}

/// What was taken in a quota's window.
pub(super) fn taken(key: &ClaimKey) -> Result<RecordKey> {
    under("~claim-taken", key)
}

/// The same, of the quota with this whole name.
pub(super) fn taken_of(quota: &str) -> Result<RecordKey> {
    of("~claim-taken/", quota)
}

/// The moments at which reservations of a quota end.
pub(super) fn ledger(quota: &str) -> Result<RecordKey> {
    of("~claim-ledger/", quota)
}

/// How much of a quota is reserved until one moment, in one window.
pub(super) fn bucket(quota: &str, window: Revision, end: Timestamp) -> Result<RecordKey> {
    of("~claim-bucket/", &format!("{quota}/{}/{}", window.get(), end.micros()))
}

/// There for as long as a reservation of a quota stands.
pub(super) fn reservation(quota: &str, id: Uuid) -> Result<RecordKey> {
    of("~claim-reservation/", &format!("{quota}/{id}"))
}

/// There once a grant was given back.
pub(super) fn refund(key: &ClaimKey, grant: Uuid) -> Result<RecordKey> {
    under("~claim-refund", &key.clone().part(&grant))
}

/// Where it says what came of an operation, as far as this right is concerned.
pub(super) fn operation(key: &ClaimKey, operation: &str) -> Result<RecordKey> {
    under("~claim-operation", &key.clone().part(&operation))
}

/// Where a value is kept that whoever writes last determines.
pub(super) fn last_write(key: &ClaimKey) -> Result<RecordKey> {
    under("~last-write", key)
}

/// The claim that a record is about, as it is shown to people.
pub(super) fn shown(record: &RecordKey) -> &str {
    record.as_str().strip_prefix(CLAIMS).unwrap_or(record.as_str())
}

/// The lease that belongs to the record of a claim.
pub(super) fn lease_of(record: &RecordKey) -> Result<RecordKey> {
    RecordKey::new(format!("{record}/"))
}

/// Whether this is a lease, and not a claim.
pub(super) fn is_lease(record: &RecordKey) -> bool {
    record.as_str().ends_with('/')
}

fn of(place: &str, name: &str) -> Result<RecordKey> {
    RecordKey::new(format!("{place}{name}"))
        .map_err(|error| error.about(format_args!("claim {name:?}")))
}

fn under(place: &str, key: &ClaimKey) -> Result<RecordKey> {
    if key.is_hollow() {
        return Err(hollow(key.as_str()));
    }
    RecordKey::new(format!("{place}/{key}"))
        .map_err(|error| error.about(format_args!("claim {key:?}")))
}

fn hollow(key: &str) -> StoreError {
    StoreError::invalid(format!("claim {key:?}: a part of its key is empty and names nothing"))
}
