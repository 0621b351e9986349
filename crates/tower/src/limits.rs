//! Every bound of the layer, and its default.

use std::time::Duration;

/// Bytes in a key.
pub(crate) const KEY_BYTES: usize = 255;
/// Bytes in the whole name of a claim; below the store's limit, because claims add a prefix.
pub(crate) const NAME_BYTES: usize = tidelock::store::limits::RECORD_KEY_BYTES - 64;
/// Bytes in the body of a request with a key.
pub(crate) const REQUEST_BYTES: usize = 1 << 20;
/// Bytes in the body of a recorded response; half of a record's limit, because JSON escapes some of
/// them.
pub(crate) const RESPONSE_BYTES: usize = tidelock::store::limits::VALUE_BYTES / 2;

/// How long a response is kept.
pub(crate) const TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a dead process holds its keys.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// The default `Retry-After`.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);
