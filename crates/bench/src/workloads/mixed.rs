//! Mixed commits, like a worker's: an event, a record, and a settled lease.
//!
//! Each caller has its own stream, record and queue. There is no baseline: no plain statement does
//! this.

use std::sync::Arc;
use std::time::Duration;

use tidelock::ExpectedVersion;
use tidelock::store::{
    Commit, EventType, ExpectedRevision, ItemKey, ItemRef, Lease, LeaseRequest, Mark, NewEvent,
    QueueName, RawJson, RecordKey, RecordWrite, Store, StreamName, Wake, WorkerName,
};

use super::commits::after;
use super::{Bench, committed};
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Caller, Callers, Comparison, Measured};
use crate::rows;

/// Items of each caller; as many as it leases at once.
const ITEMS: usize = 10;
const DURATION: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &Bench<'_>, callers: usize) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |store| fill(store, callers).await).await?;
    let workers = (0..callers).map(|n| Worker::new(&fixture.store, n)).collect::<Result<_, _>>()?;
    let measured =
        measure::measure(Comparison::of(Callers(workers)), bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}

/// Every item has work.
async fn fill(store: &dyn Store, callers: usize) -> Result<(), Failure> {
    for caller in 0..callers {
        let mut commit = Commit::new();
        for number in 0..ITEMS {
            let item =
                ItemRef { queue: queue(caller)?, key: ItemKey::new(rows::item_key(number))? };
            commit = commit.wake(Wake::to_mark(item, Mark::new(1)?));
        }
        committed(store.commit(commit).await?)?;
    }
    Ok(())
}

fn queue(caller: usize) -> Result<QueueName, Failure> {
    Ok(QueueName::new(format!("{}-{caller:03}", rows::QUEUE))?)
}

struct Worker {
    store: Arc<dyn Store>,
    stream: StreamName,
    expected: ExpectedVersion,
    record: RecordKey,
    event_type: EventType,
    payload: RawJson,
    request: LeaseRequest,
    /// Unsettled leases.
    leases: Vec<Lease>,
}

impl Worker {
    fn new(store: &Arc<dyn Store>, number: usize) -> Result<Self, Failure> {
        let worker = WorkerName::new(rows::WORKER)?;
        Ok(Self {
            store: store.clone(),
            stream: StreamName::new(rows::stream_name(number))?,
            expected: ExpectedVersion::NoStream,
            record: RecordKey::new(rows::record_key(number, 0))?,
            event_type: EventType::new(rows::EVENT_TYPE)?,
            payload: RawJson::parse(rows::payload())?,
            request: LeaseRequest::new(&queue(number)?, &worker, DURATION, ITEMS),
            leases: Vec::new(),
        })
    }

    async fn next_lease(&mut self) -> Result<Lease, Failure> {
        if self.leases.is_empty() {
            self.leases = self.store.lease(self.request.clone()).await?.leases;
        }
        self.leases.pop().ok_or_else(|| {
            Failure::Answer("nothing to lease in a queue that is never idle".to_owned())
        })
    }

    fn commit(&self, lease: &Lease) -> Commit {
        let event = NewEvent::new(self.event_type.clone(), self.payload.clone());
        Commit::new()
            .append(&self.stream, self.expected, [event])
            .write(RecordWrite::put(&self.record, ExpectedRevision::Any, self.payload.clone()))
            .settle(lease.ack())
            .wake(Wake::to_mark(lease.item.clone(), lease.mark.plus(1)))
    }
}

impl Caller for Worker {
    async fn call(&mut self) -> Result<u64, Failure> {
        let lease = self.next_lease().await?;
        let committed = committed(self.store.commit(self.commit(&lease)).await?)?;
        self.expected = after(&committed)?;
        Ok(1)
    }
}
