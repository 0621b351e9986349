//! Limits: every bound of the contract, the same on every store.
//!
//! A bound is checked before anything is written, and the error names it. Bounds are generous for
//! their purpose, and small enough that no single call can monopolize a store, a page or a
//! terminal.

use std::time::Duration;

/// Bytes in a stream's name.
pub const STREAM_NAME_BYTES: usize = 256;
/// Bytes in an event's type.
pub const EVENT_TYPE_BYTES: usize = 128;
/// Bytes in a record's key.
pub const RECORD_KEY_BYTES: usize = 512;
/// Bytes in a queue's name.
pub const QUEUE_NAME_BYTES: usize = 128;
/// Bytes in the key of a work item.
pub const ITEM_KEY_BYTES: usize = 256;
/// Bytes in a lane's name.
pub const LANE_NAME_BYTES: usize = 64;
/// Bytes in a worker's name.
pub const WORKER_NAME_BYTES: usize = 128;

/// Bytes in one event's payload, as JSON text.
pub const PAYLOAD_BYTES: usize = 1 << 20;
/// Bytes in one event's metadata, as JSON text.
pub const METADATA_BYTES: usize = 16 << 10;
/// Bytes in one record's value, as JSON text.
pub const VALUE_BYTES: usize = 1 << 20;
/// Nested arrays and objects in any JSON.
pub const JSON_DEPTH: usize = 64;
/// Nested options and newtypes around a value that is written as JSON, which does not show them.
pub const JSON_WRAPPERS: usize = 512;

/// Events in one commit, over all its appends.
pub const EVENTS_PER_COMMIT: usize = 1_000;
/// Parts in one commit: appends, writes, wakes, settlements, fences, guards, trims and restores
/// together.
pub const PARTS_PER_COMMIT: usize = 1_000;
/// Bytes of JSON in one commit, over all its parts.
pub const COMMIT_BYTES: usize = 16 << 20;

/// Entries in one page of any read, and names in one call that takes names.
pub const PAGE_SIZE: usize = 1_000;
/// Rows that one call may examine to fill a page: events of a filtered feed, records, work items.
pub const FEED_SCAN: usize = 10_000;
/// Consecutive empty pages after which a full-page read returns where to continue.
pub const EMPTY_PAGES: usize = 8;
/// Leases granted or renewed by one call.
pub const LEASES_PER_CALL: usize = 1_000;
/// Characters of the error stored with a retried or blocked item; the rest is cut off.
pub const ERROR_CHARS: usize = 2_000;
/// The highest count of attempts, failures or expiries with which an item can be restored.
pub const RESTORED_COUNT: u32 = 1 << 30;
/// The highest priority; the lowest is its negative.
pub const PRIORITY: i16 = 100;

/// The longest lease.
pub const LEASE_DURATION: Duration = Duration::from_secs(7 * 24 * 3600);
/// The furthest that a due time, a hold or an expiry may lie ahead, when it is given as a duration.
pub const HORIZON: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How long a deleted or expired record still reads as deleted; after that it reads as never
/// written, and the store keeps only a floor that its next revision is above.
pub const TOMBSTONE_MEMORY: Duration = Duration::from_secs(3600);
/// How long an item that Tidelock itself has finished is kept, so that a repeated settlement is
/// recognized.
pub const ITEM_MEMORY: Duration = Duration::from_secs(3600);
/// How long an id that only protects the retries of one call is remembered.
pub const RETRY_MEMORY: Duration = Duration::from_secs(3600);
/// How long a commit's id is remembered with its result, unless the commit says otherwise.
pub const COMMIT_MEMORY: Duration = Duration::from_secs(7 * 24 * 3600);

/// One slot in this many goes to the item that has been due longest, independent of its priority.
pub const AGE_RESERVE: u64 = 4;
