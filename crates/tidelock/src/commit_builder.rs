//! [`Tidelock::commit`]: one commit to the store below the patterns, with names as strings.

use std::future::IntoFuture;
use std::ops::RangeBounds;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tidelock_store::{
    Bounds, Commit, CommitId, CommitOutcome, Committed, ExpectedRevision, ExpectedVersion, RawJson,
    RecordKey, RecordWrite, StoreError, StreamName,
};

use crate::error::Result;
use crate::event_draft::IntoNewEvents;
use crate::events::submit::ensure_retry_id;
use crate::group_commit::Submit;
use crate::handle::Tidelock;
use crate::staging::join;

impl Tidelock {
    /// Starts a commit: events, records and work items that are written together or not at all.
    ///
    /// Await it for what was written. An invalid name or value is reported then, and so is a
    /// conflict, as an error of kind [`Conflict`](crate::ErrorKind::Conflict);
    /// [`outcome`](CommitBuilder::outcome) returns a conflict as a value instead. To decide on what
    /// was read, use [`transact`](Self::transact), which runs again on a conflict.
    ///
    /// # Examples
    /// ```
    /// use serde_json::json;
    /// use tidelock::ErrorKind;
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let order = |id: &str| {
    ///     tidelock
    ///         .commit()
    ///         .append(id, ExpectedVersion::NoStream, event("placed", json!({ "units": 12 })))
    ///         .add("sold/tea", 12, ..=18)
    ///         .enqueue("mail", id)
    /// };
    /// let done = order("order-7").await?;
    /// assert_eq!(done.writes[0].sum, Some(12));
    ///
    /// // 24 are out of the range, so there is no order either.
    /// assert_eq!(order("order-8").await.unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit(&self) -> CommitBuilder {
        CommitBuilder { tidelock: self.clone(), commit: Ok(Commit::new()) }
    }
}

/// A commit to be awaited. Keeps the first invalid name or value and reports it then.
#[derive(Debug, Clone)]
#[must_use = "nothing is written until this is awaited"]
pub struct CommitBuilder {
    tidelock: Tidelock,
    commit: Result<Commit, StoreError>,
}

impl CommitBuilder {
    /// Appends events to a stream, which must then be as expected. At most one append per stream.
    pub fn append(
        self,
        stream: impl AsRef<str>,
        expected: ExpectedVersion,
        events: impl IntoNewEvents,
    ) -> Self {
        self.with(|commit| {
            let stream = StreamName::new(stream.as_ref())?;
            Ok(commit.append(&stream, expected, events.into_new_events()?))
        })
    }

    /// Stores the JSON of a value under a key, whatever was there. At most one write per record.
    pub fn put(self, key: impl AsRef<str>, value: &(impl Serialize + ?Sized)) -> Self {
        self.put_if(key, ExpectedRevision::Any, value)
    }

    /// Stores the JSON of a value under a key, which must then be as expected (compare-and-swap).
    pub fn put_if(
        self,
        key: impl AsRef<str>,
        expected: ExpectedRevision,
        value: &(impl Serialize + ?Sized),
    ) -> Self {
        self.with(|commit| {
            let key = RecordKey::new(key.as_ref())?;
            Ok(commit.write(RecordWrite::put(&key, expected, RawJson::new(value)?)))
        })
    }

    /// Deletes a record.
    pub fn delete(self, key: impl AsRef<str>) -> Self {
        self.with(|commit| {
            let key = RecordKey::new(key.as_ref())?;
            Ok(commit.write(RecordWrite::delete(&key, ExpectedRevision::Any)))
        })
    }

    /// Adds to a counter, which must then be within the range.
    pub fn add(self, key: impl AsRef<str>, delta: i64, within: impl RangeBounds<i64>) -> Self {
        self.with(|commit| {
            let key = RecordKey::new(key.as_ref())?;
            Ok(commit.write(RecordWrite::add(&key, delta, Bounds::from_range(within))))
        })
    }

    /// Enqueues an item of a [queue](Tidelock::queue), due immediately.
    pub fn enqueue(self, queue: impl AsRef<str>, key: impl AsRef<str>) -> Self {
        let item = self.tidelock.queue(queue).enqueue(key);
        self.with(|commit| joined(commit, item.into_parts()?))
    }

    /// Requires that a stream is as expected, without appending to it.
    pub fn guard_stream(self, stream: impl AsRef<str>, expected: ExpectedVersion) -> Self {
        self.with(|commit| Ok(commit.guard_stream(&StreamName::new(stream.as_ref())?, expected)))
    }

    /// Requires that a record is as expected, without writing to it.
    pub fn guard_record(self, key: impl AsRef<str>, expected: ExpectedRevision) -> Self {
        self.with(|commit| Ok(commit.guard_record(&RecordKey::new(key.as_ref())?, expected)))
    }

    /// Sets the commit's id: a commit with the same id returns the first one's result, and writes
    /// nothing. Without it there is a fresh id, so that a resend after an unknown outcome is safe.
    pub fn id(self, id: CommitId) -> Self {
        self.with(|commit| Ok(commit.with_id(id)))
    }

    /// Adds parts as they are: everything that the store's contract has. Their id is not used.
    pub fn parts(self, parts: Commit) -> Self {
        self.with(|commit| joined(commit, parts))
    }

    /// Returns the commit instead of sending it: for a call that takes parts, such as
    /// [`ClaimGuard::complete_with`](crate::claims::ClaimGuard::complete_with).
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if a name or value cannot be stored.
    pub fn build(self) -> Result<Commit> {
        Ok(self.commit?)
    }

    /// Sends the commit, and returns a conflict as a value: to branch on it.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if a name or value cannot be stored; `IdempotencyMismatch` if
    /// the id was used for another commit; the store's errors.
    ///
    /// # Cancel safety
    /// If the future is dropped, the commit may have happened or not.
    pub async fn outcome(self) -> Result<CommitOutcome> {
        Ok(self.tidelock.submit(&ensure_retry_id(self.commit?)).await?)
    }

    fn with(mut self, change: impl FnOnce(Commit) -> Result<Commit, StoreError>) -> Self {
        self.commit = self.commit.and_then(change);
        self
    }
}

fn joined(mut commit: Commit, parts: Commit) -> Result<Commit, StoreError> {
    join(&mut commit, parts);
    Ok(commit)
}

impl IntoFuture for CommitBuilder {
    type Output = Result<Committed>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Ok(self.outcome().await?.committed()?) }.boxed()
    }
}
