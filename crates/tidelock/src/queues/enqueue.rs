//! Enqueuing an item.

use std::future::IntoFuture;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tidelock_store::{
    Commit, ExpectedRevision, ItemRef, LaneName, Mark, Priority, RawJson, RecordWrite, Result,
    StoreError, Timestamp, Wake, When, limits,
};

use super::keys;
use crate::bounds;
use crate::events::submit;
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::telemetry;
use crate::trace_context::TraceContext;

/// An item to enqueue. Await it to get the time at which it was enqueued.
///
/// An item that exists already is woken: the earliest time and the furthest mark count. A leased
/// item is due again once it is settled. A blocked item stays blocked until it is unblocked.
#[derive(Debug)]
#[must_use = "nothing is enqueued until this is awaited"]
pub struct EnqueueItem {
    tidelock: Tidelock,
    wake: Result<Wake>,
    data: Option<RawJson>,
    operation: Option<String>,
    trace: Option<TraceContext>,
}

impl EnqueueItem {
    pub(super) fn new(tidelock: Tidelock, item: Result<ItemRef>) -> Self {
        Self {
            tidelock,
            wake: item.map(|item| Wake::at(item, When::NOW)),
            data: None,
            operation: None,
            trace: TraceContext::current(),
        }
    }

    /// Sets when the item is due.
    pub fn due(self, when: When) -> Self {
        self.with(|wake| wake.due = Some(when))
    }

    /// Sets the mark up to which there is work.
    ///
    /// The item is then due for that only: a mark that is done already wakes no worker.
    pub fn to_mark(self, mark: Mark) -> Self {
        self.with(|wake| {
            wake.mark = Some(mark);
            wake.due = wake.due.filter(|due| *due != When::NOW);
        })
    }

    /// Sets the lane of a new item.
    pub fn lane(self, lane: LaneName) -> Self {
        self.with(|wake| wake.lane = Some(lane))
    }

    /// Sets the priority of a new item.
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|wake| wake.priority = Some(priority))
    }

    /// Sets the data that a worker gets with its lease.
    ///
    /// It replaces existing data, and is deleted when the item is acknowledged, unless the item was
    /// enqueued again meanwhile.
    pub fn data(mut self, data: &(impl Serialize + ?Sized)) -> Self {
        match RawJson::new(data) {
            Ok(data) => self.data = Some(data),
            Err(error) => self.wake = Err(error),
        }
        self
    }

    /// Makes the call idempotent.
    ///
    /// If the item was enqueued before under this id with the same options, the first time is
    /// returned and nothing is woken. The id is remembered for seven days.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(id.into());
        // A repetition comes from another request, and is the same commit.
        self.trace = None;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Wake)) -> Self {
        if let Ok(wake) = &mut self.wake {
            change(wake);
        }
        self
    }

    /// Returns the parts of a commit that enqueue it.
    ///
    /// # Errors
    /// `Invalid` if a name or the data cannot be stored, or there is an operation id.
    pub(crate) fn into_parts(self) -> Result<Commit> {
        match self.operation {
            None => self.commit(),
            Some(_) => Err(StoreError::invalid(
                "an item with an operation id has its own commit; leave the id out in a transaction, which happens once",
            )),
        }
    }

    fn commit(self) -> Result<Commit> {
        let wake = self.wake?;
        let data = self
            .data
            .map(|data| RecordWrite::put(&keys::data(&wake.item), ExpectedRevision::Any, data));
        let trace = self.trace.map(|trace| trace_record(&wake, &trace)).transpose()?;
        Ok(data.into_iter().chain(trace).fold(Commit::new().wake(wake), Commit::write))
    }

    async fn send(mut self) -> Result<Timestamp> {
        let (tidelock, operation) = (self.tidelock.clone(), self.operation.take());
        operation.as_deref().map_or(Ok(()), bounds::names)?;
        let queue = self.wake.as_ref().ok().map(|wake| wake.item.queue.clone());
        let commit = match (self.commit()?, operation) {
            (commit, Some(id)) => submit::derive_id(commit, &id),
            (commit, None) => submit::ensure_retry_id(commit),
        };
        let sent =
            submit::send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await?;
        let refused = |_| StoreError::corrupt("a wake without expectations was refused");
        let at = sent.committed().map_err(refused)?.at;
        queue.iter().for_each(telemetry::enqueued);
        Ok(at)
    }
}

/// The trace beside an item: kept as long as an item that is done is remembered.
fn trace_record(wake: &Wake, trace: &TraceContext) -> Result<RecordWrite> {
    let metadata = Metadata { trace: Some(trace.clone()), ..Metadata::new() };
    let write =
        RecordWrite::put(&keys::trace(&wake.item), ExpectedRevision::Any, metadata.to_json()?);
    let kept = match wake.due {
        Some(When::At(due)) => When::At(due.plus(limits::ITEM_MEMORY)),
        Some(When::In(due)) => {
            When::In(due.saturating_add(limits::ITEM_MEMORY).min(limits::HORIZON))
        }
        None => When::In(limits::ITEM_MEMORY),
    };
    Ok(write.expiring(kept))
}

impl IntoFuture for EnqueueItem {
    type Output = Result<Timestamp>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
