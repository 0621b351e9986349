//! The store contract of Tidelock: three primitives and one atomic commit.
//!
//! A store keeps a *log* of events in streams, *records* of JSON under keys, and *leases* on work
//! items, and writes to all of them through one atomic [`Commit`]. It knows names, versions,
//! positions, revisions and deadlines. It deliberately knows nothing of the patterns built on them:
//! no run, no reaction, no claim.
//!
//! [`Store`] is the whole contract. [`MemoryStore`] is its executable specification: where the
//! documentation and the memory store disagree, one of them has a bug. Adapters for databases live
//! in their own crates and pass the same conformance suite.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod limits;

mod clock;
mod convert;
mod error;
mod ids;
mod json;
mod names;
mod numbers;

mod commit;
mod leases;
mod log;
mod records;

mod capabilities;
mod ext;
mod layer;
mod rows;
mod signal;
mod store;

pub mod plan;

mod memory;

pub use async_trait::async_trait;

pub use capabilities::Capabilities;
pub use clock::{Clock, ManualClock, StoreClock, SystemClock, Timestamp, When};
pub use commit::{
    AfterTrim, Appended, Commit, CommitOutcome, Committed, Conflict, Guard, Part, Trim, Violation,
    ViolationKind, ViolationReason, Written, stream_category,
};
pub use error::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
pub use ext::StoreExt;
pub use ids::{CommitId, EventId};
#[doc(hidden)]
pub use ids::{fresh_uuid, simulate_ids};
pub use json::RawJson;
#[doc(hidden)]
pub use json::unfit;
pub use layer::StoreLayer;
pub use leases::{
    Adjusted, Adjustment, Item, ItemFilter, ItemPage, ItemQuery, ItemRef, Lease, LeaseHolder,
    LeaseRequest, LeaseToken, Leased, NamePattern, Renewal, Settle, SettleKind, Settlement, Wake,
};
pub use log::{
    AfterAppend, Append, Direction, ExpectedVersion, FeedFilter, FeedPage, FeedQuery, FeedStart,
    Head, HeadPage, HeadQuery, NewEvent, StoredEvent, StreamPage, StreamQuery, StreamState,
};
pub use memory::MemoryStore;
pub use names::{EventType, ItemKey, LaneName, QueueName, RecordKey, StreamName, WorkerName};
pub use numbers::{Fence, Mark, Position, Priority, Revision, Version};
pub use records::{
    Bounds, Change, Edit, ExpectedRevision, Rate, Record, RecordPage, RecordQuery, RecordWrite,
    Slot, Unfit,
};
pub use rows::{Paged, Rows};
pub use signal::{ChangeHint, ChangeHints, Topic};
pub use store::Store;
