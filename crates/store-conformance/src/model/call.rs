//! A call on a store and its answer, as data that can be compared.

use std::time::Duration;

use tidelock_store::{
    Adjusted, Adjustment, Commit, CommitOutcome, FeedQuery, HeadPage, HeadQuery, Item, ItemFilter,
    LeaseRequest, LeaseToken, Leased, Record, RecordKey, Renewal, Slot, StoreErrorKind,
    StoredEvent, StreamPage, StreamQuery, Timestamp,
};

/// Something to ask a store, or to do to its clock.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Commit(Commit),
    ReadStream(StreamQuery),
    /// The feed, page by page, to its end. The position counts events: what it is on a store is the
    /// player's affair.
    ReadFeed(FeedQuery),
    Heads(HeadQuery),
    Get(Vec<RecordKey>),
    /// All records with this prefix, in pages of this size.
    Scan(String, usize),
    Lease(LeaseRequest),
    Renew(Vec<LeaseToken>, Duration),
    /// All items that pass, in pages of this size.
    Items(ItemFilter, usize),
    Adjust(ItemFilter, Adjustment),
    Clock(Tick),
}

/// Something done to the clock.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tick {
    Advance(Duration),
    SetForward(Duration),
    SetBack(Duration),
}

/// What came of it, with everything left out that a store is free to choose.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Commit(CommitOutcome),
    Stream(StreamPage),
    Feed(Vec<StoredEvent>),
    Heads(HeadPage),
    Slots(Vec<Slot>),
    Records(Vec<Record>),
    Leased(Leased),
    Renewed(Vec<Renewal>),
    Items(Vec<Item>),
    Adjusted(Adjusted),
    Now(Timestamp),
    Failed(StoreErrorKind),
}
