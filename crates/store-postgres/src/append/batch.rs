//! Appends as columns, for the statements that make many of them.

use tidelock_store::{Append, LeaseToken};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Plain, code};

/// Events, as columns.
#[derive(Default)]
struct Events<'a> {
    ids: Vec<Uuid>,
    types: Vec<&'a str>,
    payloads: Vec<&'a str>,
    metadata: Vec<&'a str>,
}

impl<'a> Events<'a> {
    fn add(&mut self, append: &'a Append) {
        for event in &append.events {
            self.ids.push(Uuid::from_bytes(*event.id.as_bytes()));
            self.types.push(event.event_type.as_str());
            self.payloads.push(event.payload.as_str());
            self.metadata.push(event.metadata.as_str());
        }
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.ids, &self.types, &self.payloads, &self.metadata]
    }
}

/// Many appends, as columns.
#[derive(Default)]
pub(super) struct Batch<'a> {
    names: Vec<&'a str>,
    expected: Vec<i64>,
    counts: Vec<i64>,
    /// Per event: the append that it belongs to, counted from 1.
    owners: Vec<i32>,
    /// Per event: its index in its append, counted from 1.
    ordinals: Vec<i64>,
    streams: Vec<&'a str>,
    events: Events<'a>,
    leases: Leases<'a>,
}

/// Fencing leases, as columns, sorted by item.
#[derive(Default)]
struct Leases<'a> {
    queues: Vec<&'a str>,
    items: Vec<&'a str>,
    fences: Vec<i64>,
}

impl<'a> Leases<'a> {
    fn of(mut tokens: Vec<&'a LeaseToken>) -> Self {
        tokens.sort_by_key(|token| &token.item);
        Self {
            queues: tokens.iter().map(|token| token.item.queue.as_str()).collect(),
            items: tokens.iter().map(|token| token.item.key.as_str()).collect(),
            fences: tokens.iter().map(|token| token.fence.get() as i64).collect(),
        }
    }
}

impl<'a> Batch<'a> {
    pub(super) fn of(appends: &[Plain<'a>]) -> Self {
        let leases = Leases::of(appends.iter().flat_map(|plain| plain.fences).collect());
        let mut batch = Self { leases, ..Self::default() };
        for (owner, append) in (1..).zip(appends.iter().map(|plain| plain.append)) {
            let count = append.events.len() as i64;
            batch.names.push(append.stream.as_str());
            batch.expected.push(code(append.expected));
            batch.counts.push(count);
            for ordinal in 1..=count {
                batch.owners.push(owner);
                batch.ordinals.push(ordinal);
                batch.streams.push(append.stream.as_str());
            }
            batch.events.add(append);
        }
        batch
    }

    /// The parameters of `tidelock.append_many`.
    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![
            &self.names,
            &self.expected,
            &self.counts,
            &self.owners,
            &self.ordinals,
            &self.streams,
        ];
        all.extend(self.events.parameters());
        all.extend::<[&(dyn ToSql + Sync); 3]>([
            &self.leases.queues,
            &self.leases.items,
            &self.leases.fences,
        ]);
        all
    }

    /// The parameters for appends of one event each, without a lease.
    pub(super) fn parameters_of_each(&self) -> [&(dyn ToSql + Sync); 6] {
        let [ids, types, payloads, metadata] = self.events.parameters();
        [&self.names, &self.expected, ids, types, payloads, metadata]
    }
}
