//! The audit: compares what was acknowledged with what is there in the end.

use std::collections::HashMap;

use tidelock_store::{Position, StoreExt, StoredEvent, StreamName, Version};
use tidelock_store_postgres::PostgresStore;

use crate::ground::feed_after;
use crate::load::{Acknowledged, Journal};

/// The number of wrong commits, by kind of error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    /// Acknowledged, and not there.
    pub(crate) lost: usize,
    /// Acknowledged, and there at another version or position.
    pub(crate) moved: usize,
    /// There, and never acknowledged.
    pub(crate) unasked: usize,
    /// There more than once, or not next to the previous one.
    pub(crate) out_of_line: usize,
    /// Counted another number of times than acknowledged.
    pub(crate) miscounted: usize,
}

impl Audit {
    /// Compares the store with the journals of all writers.
    pub(crate) async fn of(store: &PostgresStore, journals: &[Journal]) -> Self {
        let events = feed_after(store, Position::START).await;
        let mut audit = Self { out_of_line: out_of_line(&events), ..Self::default() };
        audit.compare(&events, journals);
        for journal in journals {
            audit.miscounted += usize::from(!is_counted_well(store, journal).await);
        }
        audit
    }

    fn compare(&mut self, events: &[StoredEvent], journals: &[Journal]) {
        let mut there: HashMap<_, _> =
            events.iter().map(|event| (event.id, acknowledged(event))).collect();
        for told in journals.iter().flat_map(|journal| &journal.acknowledged) {
            match there.remove(&told.id) {
                None => self.lost += 1,
                Some(found) => self.moved += usize::from(found != *told),
            }
        }
        self.unasked = there.len();
    }
}

/// The acknowledgement that belongs to an event.
fn acknowledged(event: &StoredEvent) -> Acknowledged {
    Acknowledged { id: event.id, version: event.version, position: event.position }
}

/// How many events do not have the version after that of the previous event of their stream.
fn out_of_line(events: &[StoredEvent]) -> usize {
    let mut versions: HashMap<&StreamName, Version> = HashMap::new();
    let strays = events.iter().filter(|event| {
        let before = versions.insert(&event.stream, event.version);
        event.version != before.map_or(Version::FIRST, |before| before.plus(1))
    });
    strays.count()
}

async fn is_counted_well(store: &PostgresStore, journal: &Journal) -> bool {
    let Some(counter) = &journal.counter else { return true };
    let record = store.get_one(counter).await.unwrap().into_live();
    let count = record.map_or(0, |record| record.value.to::<usize>().unwrap());
    count == journal.acknowledged.len()
}
