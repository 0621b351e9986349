//! Every bound of the edge, and what it is unless something else is asked for.

use std::time::Duration;

/// Bytes in a key, as the client means it.
pub(crate) const KEY_BYTES: usize = 255;
/// Bytes in the whole name of a claim; below what a store takes, for it puts something in front.
pub(crate) const NAME_BYTES: usize = tidelock::limits::RECORD_KEY_BYTES - 64;
/// Bytes in the body of a request that has a key.
pub(crate) const REQUEST_BYTES: usize = 1 << 20;
/// Bytes in the body of a response that is kept; half of what a record holds, for JSON has to
/// escape some of them.
pub(crate) const RESPONSE_BYTES: usize = tidelock::limits::VALUE_BYTES / 2;

/// How long a response is kept.
pub(crate) const TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a process that has died keeps its keys.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// When a client that was told to is to come back.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);
