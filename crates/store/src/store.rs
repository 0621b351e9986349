//! The contract itself.

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
/// **Cancel safety**, of every method: dropping the future leaves the store sound. A call that
/// writes has then happened either whole or not at all; a commit with an id can be sent again to
/// learn which.
///
/// **Errors**, of every method: `Invalid` and `LimitExceeded` before anything is written;
/// `Unavailable`, `Full` and `Storage` as the place where the data is kept has it.
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// What this store can do beyond the contract.
    fn capabilities(&self) -> Capabilities;

    /// The moment it is, by the only clock that counts (TIME-1).
    async fn now(&self) -> Result<Timestamp>;

    /// Writes all parts or none.
    ///
    /// # Behavior
    /// - All parts hold and are durable when this returns `Committed`; otherwise nothing is
    ///   written, and the conflict names every part that did not hold with what is there now
    ///   (COMMIT-1, COMMIT-2).
    /// - Expectations are judged against what was there before the commit (COMMIT-3).
    /// - Events that are already there, all of them and with the same content, give the original
    ///   result whatever the expectation says (LOG-5). Under a commit id seen before, so does the
    ///   whole commit (COMMIT-4).
    /// - A closed stream takes no append (LOG-8), a lost lease writes nothing (LEASE-5).
    ///
    /// # Errors
    /// - `IdempotencyMismatch`: an event id or the commit id was used before, for something else.
    /// - any error with advice `Unknown`: it may have happened; send the same commit with its id
    ///   again.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome>;

    /// A page of one stream, forward or backward (LOG-6). A stream that does not exist is an empty
    /// page that says so.
    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage>;

    /// A page of the feed of all streams. A position given out is final: nothing will ever appear
    /// at or before it (LOG-7). It begins behind a position, at the end, or so many events before
    /// either (LOG-11, LOG-12).
    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage>;

    /// Version, count and last event of streams, by name or by prefix.
    async fn heads(&self, query: HeadQuery) -> Result<HeadPage>;

    /// What is under each of these keys, all read at one moment (REC-6).
    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>>;

    /// A page of the records whose keys begin alike, by key.
    async fn scan(&self, query: RecordQuery) -> Result<RecordPage>;

    /// Leases items that are due, free and not blocked.
    ///
    /// # Behavior
    /// - No item is ever held twice; each lease's fence is higher than all before it on that item
    ///   (LEASE-1, LEASE-2).
    /// - Higher priority first; but one slot in every four goes to whatever has been due longest
    ///   (LEASE-7).
    /// - An item whose lease has run out counts as due, and the expiry is counted apart from
    ///   failures (LEASE-6).
    /// - The cost does not depend on how many items are idle.
    async fn lease(&self, request: LeaseRequest) -> Result<Leased>;

    /// Extends leases; for each token, in order, the new deadline or the loss (LEASE-4).
    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>>;

    /// A page of work items, by queue and key, without taking anything.
    async fn items(&self, query: ItemQuery) -> Result<ItemPage>;

    /// Does this to every item that passes the filter; each item changes whole, many items not at
    /// one moment.
    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted>;

    /// A signal to wait on instead of polling hot. It is a hint: keep polling, slowly.
    fn signal(&self, topic: Topic) -> ChangeHint;

    /// Finishes what was begun and lets go of files and connections. Calls after this are
    /// `Unavailable`.
    async fn close(&self) -> Result<()>;
}
