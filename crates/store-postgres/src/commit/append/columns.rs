//! Appends as columns: a statement takes one array per column, for any number of appends.

use tidelock_store::{Append, Commit, LeaseToken};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{append_of, code};

/// Appends with their events and leases, as columns.
#[derive(Default)]
pub(super) struct Columns<'a> {
    names: Vec<&'a str>,
    expected: Vec<i64>,
    counts: Vec<i64>,
    /// Per event: the append that it belongs to, counted from 1.
    owners: Vec<i32>,
    /// Per event: its index in its append, counted from 1.
    ordinals: Vec<i64>,
    streams: Vec<&'a str>,
    ids: Vec<Uuid>,
    types: Vec<&'a str>,
    payloads: Vec<&'a str>,
    metadata: Vec<&'a str>,
    /// Fencing leases, sorted by item.
    queues: Vec<&'a str>,
    items: Vec<&'a str>,
    fences: Vec<i64>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(commits: &[&'a Commit]) -> Self {
        let mut columns = Self::default();
        for (owner, commit) in (1..).zip(commits) {
            columns.add(owner, append_of(commit));
        }
        let mut leases: Vec<&LeaseToken> =
            commits.iter().flat_map(|commit| &commit.fences).collect();
        leases.sort_by_key(|lease| &lease.item);
        for lease in leases {
            columns.queues.push(lease.item.queue.as_str());
            columns.items.push(lease.item.key.as_str());
            columns.fences.push(lease.fence.get() as i64);
        }
        columns
    }

    fn add(&mut self, owner: i32, append: &'a Append) {
        self.names.push(append.stream.as_str());
        self.expected.push(code(append.expected));
        self.counts.push(append.events.len() as i64);
        for (ordinal, event) in (1..).zip(&append.events) {
            self.owners.push(owner);
            self.ordinals.push(ordinal);
            self.streams.push(append.stream.as_str());
            self.ids.push(Uuid::from_bytes(*event.id.as_bytes()));
            self.types.push(event.event_type.as_str());
            self.payloads.push(event.payload.as_str());
            self.metadata.push(event.metadata.as_str());
        }
    }

    /// The parameters of `tidelock.append_many`.
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 13] {
        [
            &self.names,
            &self.expected,
            &self.counts,
            &self.owners,
            &self.ordinals,
            &self.streams,
            &self.ids,
            &self.types,
            &self.payloads,
            &self.metadata,
            &self.queues,
            &self.items,
            &self.fences,
        ]
    }

    /// The parameters for appends of one event each, without a lease.
    pub(super) fn of_each(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.names, &self.expected, &self.ids, &self.types, &self.payloads, &self.metadata]
    }

    /// The parameters for the first append, of one event and without a lease.
    pub(super) fn of_the_first(&self) -> [&(dyn ToSql + Sync); 6] {
        [
            &self.names[0],
            &self.expected[0],
            &self.ids[0],
            &self.types[0],
            &self.payloads[0],
            &self.metadata[0],
        ]
    }
}
