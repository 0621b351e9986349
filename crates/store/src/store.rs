//! The store contract.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::capabilities::Capabilities;
use crate::clock::Timestamp;
use crate::commit::{Commit, CommitOutcome};
use crate::error::Result;
use crate::leases::{
    Adjusted, Adjustment, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased,
    Renewal,
};
use crate::log::{FeedPage, FeedQuery, HeadPage, HeadQuery, StreamPage, StreamQuery};
use crate::names::RecordKey;
use crate::records::{RecordPage, RecordQuery, Slot};
use crate::signal::{ChangeHint, Topic};

/// Three primitives (log, records, leases) and one atomic commit over all of them.
///
/// The promises named here are those of `docs/guarantees.md`; the conformance suite quotes the same
/// numbers.
///
/// **Cancel safety**, of every method: dropping the future leaves the store consistent. A call that
/// writes has then happened either completely or not at all; a commit with an id can be sent again
/// to learn which.
///
/// **Errors**, of every method: `Invalid` and `LimitExceeded` before anything is written;
/// `Unavailable`, `Full` and `Storage` from the storage underneath.
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// The store's capabilities beyond the contract.
    fn capabilities(&self) -> Capabilities;

    /// The store as its own type, for what only it can do. No pattern depends on it, so the default
    /// is none.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The current time of the store's clock, the only clock that counts (TIME-1).
    async fn now(&self) -> Result<Timestamp>;

    /// Commits all parts or none.
    ///
    /// # Behavior
    /// - All parts hold and are durable when this returns `Committed`. Otherwise nothing is
    ///   written, and the conflict names every part that failed with what is there now (COMMIT-1,
    ///   COMMIT-2).
    /// - Expectations are judged against the state before the commit (COMMIT-3).
    /// - If all events are already there with the same content, the original result is returned,
    ///   independent of the expectation (LOG-5). Under a commit id seen before, the same holds for
    ///   the whole commit (COMMIT-4).
    /// - A closed stream accepts no append (LOG-8), a lost lease writes nothing (LEASE-5).
    ///
    /// # Errors
    /// - `IdempotencyMismatch`: an event id or the commit id was used before, for something else.
    /// - any error with advice `Unknown`: it may have happened; send the same commit with its id
    ///   again.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome>;

    /// Reads a page of one stream, forward or backward (LOG-6). For a stream that does not exist,
    /// the page is empty and says so.
    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage>;

    /// Reads a page of the feed of all streams. A position given out is final: no new event will
    /// ever appear at or before it (LOG-7). The page begins after a position, at the end, or a
    /// number of events before either (LOG-11, LOG-12).
    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage>;

    /// Reads the version, count and last event of streams, by name or by prefix.
    async fn heads(&self, query: HeadQuery) -> Result<HeadPage>;

    /// Reads the records under these keys, all at one moment (REC-6).
    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>>;

    /// Reads a page of the records whose keys share a prefix, by key.
    async fn scan(&self, query: RecordQuery) -> Result<RecordPage>;

    /// Leases items that are due, free and not blocked.
    ///
    /// # Behavior
    /// - No item is ever leased twice at once; each lease's fence is higher than all earlier ones
    ///   of that item (LEASE-1, LEASE-2).
    /// - Higher priority goes first, but one slot in every four goes to the item that has been due
    ///   longest (LEASE-7).
    /// - An item whose lease has expired counts as due, and the expiry is counted separately from
    ///   failures (LEASE-6).
    /// - The cost does not depend on how many items are idle.
    async fn lease(&self, request: LeaseRequest) -> Result<Leased>;

    /// Extends leases; for each token, in order, returns the new deadline or the loss (LEASE-4).
    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>>;

    /// Lists a page of work items, by queue and key, without leasing them.
    async fn items(&self, query: ItemQuery) -> Result<ItemPage>;

    /// Applies an operation to every item that passes the filter. Each item changes atomically, but
    /// many items do not change at one moment.
    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted>;

    /// Takes a signal to wait for instead of polling in a loop. It is a hint: keep polling, slowly.
    fn signal(&self, topic: Topic) -> ChangeHint;

    /// Finishes what was begun and releases files and connections. Later calls are `Unavailable`.
    async fn close(&self) -> Result<()>;
}
