//! A call on a store and its answer, as comparable data.

use std::time::Duration;

use tidelock_store::{
    Adjusted, Adjustment, Commit, CommitOutcome, FeedQuery, HeadPage, HeadQuery, Item, ItemFilter,
    LeaseRequest, LeaseToken, Leased, Record, RecordKey, Renewal, Slot, StoreErrorKind,
    StoredEvent, StreamPage, StreamQuery, Timestamp,
};

/// A call on a store, or a change of its clock.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Commit(Commit),
    ReadStream(StreamQuery),
    /// The feed, page by page, to its end. The position counts events; the player translates it to
    /// a position of the store.
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

/// A change of the clock.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tick {
    Advance(Duration),
    SetForward(Duration),
    SetBack(Duration),
}

/// The answer, without everything that a store is free to choose.
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
