//! Every bound of the contract, in one place, the same on every store.
//!
//! A bound is checked at the border, before anything is written, and the error names it. They are
//! generous for what they are meant for and small enough that no single call can hold a store, a
//! page or a terminal hostage.

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
/// Levels of arrays and objects inside each other in any JSON.
pub const JSON_DEPTH: usize = 64;
/// Options and newtypes around a value that is to be written as JSON, in which they do not show.
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
/// Rows that one call may look at to fill a page: events of a filtered feed, records, work items.
pub const FEED_SCAN: usize = 10_000;
/// Pages without a row in a row, after which a caller that asked for a full page is told where to
/// go on.
pub const EMPTY_PAGES: usize = 8;
/// Leases granted or renewed by one call.
pub const LEASES_PER_CALL: usize = 1_000;
/// Characters that are kept of the error stored with a retried or blocked item; the rest is cut
/// off.
pub const ERROR_CHARS: usize = 2_000;
/// The highest count of attempts, failures or expiries that an item can be restored with.
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
/// How long an item stays that Tidelock itself has finished, so that a settlement that is sent
/// again is recognized.
pub const ITEM_MEMORY: Duration = Duration::from_secs(3600);
/// How long an id is remembered that only protects the retries of one call.
pub const RETRY_MEMORY: Duration = Duration::from_secs(3600);
/// How long a commit's id is remembered with its result, unless the commit says otherwise.
pub const COMMIT_MEMORY: Duration = Duration::from_secs(7 * 24 * 3600);

/// One slot in this many is given to the item that has waited longest, whatever its priority.
pub const AGE_RESERVE: u64 = 4;
