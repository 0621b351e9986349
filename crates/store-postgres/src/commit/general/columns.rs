//! Rows as columns: a statement takes one array per column, for any number of rows.

use tidelock_store::{Item, SettleKind, StoredEvent, Timestamp};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Events, without their positions.
#[derive(Debug, Default)]
pub(crate) struct EventColumns<'a> {
    streams: Vec<&'a str>,
    versions: Vec<i64>,
    ids: Vec<Uuid>,
    types: Vec<&'a str>,
    payloads: Vec<&'a str>,
    metadata: Vec<&'a str>,
}

impl<'a> EventColumns<'a> {
    pub(crate) fn of(events: &'a [StoredEvent]) -> Self {
        let mut columns = Self::default();
        for event in events {
            columns.streams.push(event.stream.as_str());
            columns.versions.push(event.version.get() as i64);
            columns.ids.push(Uuid::from_bytes(*event.id.as_bytes()));
            columns.types.push(event.event_type.as_str());
            columns.payloads.push(event.payload.as_str());
            columns.metadata.push(event.metadata.as_str());
        }
        columns
    }

    /// The parameters of `ADD_EVENTS`.
    pub(crate) fn parameters<'p>(&'p self, not_before: &'p i64) -> [&'p (dyn ToSql + Sync); 7] {
        [
            &self.streams,
            &self.versions,
            &self.ids,
            &self.types,
            &self.payloads,
            &self.metadata,
            not_before,
        ]
    }
}

/// Work items.
#[derive(Debug, Default)]
pub(crate) struct ItemColumns<'a> {
    queues: Vec<&'a str>,
    keys: Vec<&'a str>,
    lanes: Vec<&'a str>,
    priorities: Vec<i16>,
    at: Vec<i64>,
    marks: Vec<i64>,
    due: Vec<Option<i64>>,
    holds: Vec<Option<i64>>,
    ready: Vec<Option<i64>>,
    attempts: Vec<i32>,
    failures: Vec<i32>,
    expiries: Vec<i32>,
    blocked: Vec<bool>,
    errors: Vec<Option<&'a str>>,
    fences: Vec<Option<i64>>,
    workers: Vec<Option<&'a str>>,
    since: Vec<Option<i64>>,
    deadlines: Vec<Option<i64>>,
    settled: Vec<Option<&'static str>>,
    forget_at: Vec<Option<i64>>,
}

impl<'a> ItemColumns<'a> {
    pub(crate) fn of(items: impl Iterator<Item = &'a Item>) -> Self {
        let mut columns = Self::default();
        items.for_each(|item| columns.push(item));
        columns
    }

    fn push(&mut self, item: &'a Item) {
        let micros = |moment: Option<Timestamp>| moment.map(Timestamp::micros);
        let holder = item.holder.as_ref();
        self.queues.push(item.item.queue.as_str());
        self.keys.push(item.item.key.as_str());
        self.lanes.push(item.lane.as_str());
        self.priorities.push(item.priority.get());
        self.at.push(item.at.get() as i64);
        self.marks.push(item.mark.get() as i64);
        self.due.push(micros(item.due));
        self.holds.push(micros(item.hold));
        self.ready.push(micros(item.ready_at()));
        self.attempts.push(count(item.attempts));
        self.failures.push(count(item.failures));
        self.expiries.push(count(item.expiries));
        self.blocked.push(item.blocked);
        self.errors.push(item.error.as_deref());
        self.fences.push(item.fence.map(|fence| fence.get() as i64));
        self.workers.push(holder.map(|holder| holder.worker.as_str()));
        self.since.push(holder.map(|holder| holder.since.micros()));
        self.deadlines.push(holder.map(|holder| holder.deadline.micros()));
        self.settled.push(item.settled.map(SettleKind::as_str));
        self.forget_at.push(micros(item.forget_at));
    }

    pub(crate) fn parameters(&self) -> [&(dyn ToSql + Sync); 20] {
        [
            &self.queues,
            &self.keys,
            &self.lanes,
            &self.priorities,
            &self.at,
            &self.marks,
            &self.due,
            &self.holds,
            &self.ready,
            &self.attempts,
            &self.failures,
            &self.expiries,
            &self.blocked,
            &self.errors,
            &self.fences,
            &self.workers,
            &self.since,
            &self.deadlines,
            &self.settled,
            &self.forget_at,
        ]
    }
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
