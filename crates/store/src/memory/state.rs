//! The tables and indexes of the in-memory store, and how a plan changes them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::commit::{Committed, stream_category};
use crate::error::Result;
use crate::ids::{CommitId, EventId};
use crate::leases::{Item, ItemRef};
use crate::log::StoredEvent;
use crate::names::{ItemKey, LaneName, QueueName, RecordKey, StreamName};
use crate::numbers::{Fence, Position, Priority, Version};
use crate::plan::{Floors, Plan, ReadRows, RecordRow, Remembered, StreamRow};

/// All data, in maps that are ordered where reads are ordered.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) streams: BTreeMap<StreamName, Stream>,
    pub(super) feed: BTreeMap<Position, Arc<StoredEvent>>,
    pub(super) events: HashMap<EventId, Arc<StoredEvent>>,
    pub(super) last_position: Option<Position>,
    pub(super) records: BTreeMap<RecordKey, RecordRow>,
    /// Expiry index, by time, so that a sweep never reads what stays.
    leaving: BTreeSet<(Timestamp, Leaving)>,
    pub(super) floors: Floors,
    /// The highest version of any forgotten stream, by category.
    version_floors: HashMap<String, u64>,
    pub(super) items: BTreeMap<QueueName, BTreeMap<ItemKey, Item>>,
    /// Ready index, so that leasing never reads what is idle.
    pub(super) ready: BTreeMap<QueueName, ReadyLanes>,
    remembered: HashMap<CommitId, Remembered>,
}

/// A row that is removed, or loses its value, at a known time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Leaving {
    Record(RecordKey),
    Item(ItemRef),
    Stream(StreamName),
    Commit(CommitId),
}

/// The items of one queue that are or will be ready: by lane, priority and time.
pub(super) type ReadyLanes =
    BTreeMap<(LaneName, Reverse<Priority>), BTreeSet<(Timestamp, ItemKey)>>;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) row: StreamRow,
    /// The remaining events, by version.
    pub(super) events: VecDeque<Arc<StoredEvent>>,
}

impl ReadRows for State {
    fn remembered(&mut self, id: CommitId) -> Result<Option<Remembered>> {
        Ok(self.remembered.get(&id).cloned())
    }

    fn stream(&mut self, name: &StreamName) -> Result<Option<StreamRow>> {
        Ok(self.streams.get(name).map(|stream| stream.row))
    }

    fn event(&mut self, id: EventId) -> Result<Option<StoredEvent>> {
        Ok(self.events.get(&id).map(|event| StoredEvent::clone(event)))
    }

    fn record(&mut self, key: &RecordKey) -> Result<Option<RecordRow>> {
        Ok(self.records.get(key).cloned())
    }

    fn item(&mut self, item: &ItemRef) -> Result<Option<Item>> {
        Ok(self.find_item(item).cloned())
    }

    fn last_position(&mut self) -> Result<Position> {
        Ok(self.last_position.unwrap_or(Position::START))
    }

    fn floors(&mut self) -> Result<Floors> {
        Ok(self.floors)
    }

    fn version_floor(&mut self, category: &str) -> Result<u64> {
        Ok(self.version_floors.get(category).copied().unwrap_or_default())
    }
}

impl State {
    pub(super) fn apply(&mut self, plan: Plan) -> Committed {
        for (stream, row) in plan.streams {
            self.put_stream(stream, row);
        }
        for event in plan.events {
            self.add_event(Arc::new(event));
        }
        for (stream, through) in plan.trims {
            self.trim(&stream, through);
        }
        for (key, row) in plan.records {
            self.put_record(key, row);
        }
        for item in plan.items {
            self.put_item(item);
        }
        if let Some((id, remembered)) = plan.remember {
            let after = remembered.forget_at;
            let before = self.remembered.insert(id, remembered).map(|before| before.forget_at);
            self.reschedule(before, Some(after), Leaving::Commit(id));
        }
        plan.committed
    }

    /// Removes up to `most` rows past their retention; returns whether there were as many.
    pub(super) fn sweep(&mut self, now: Timestamp, most: usize) -> bool {
        for _ in 0..most {
            let Some((moment, leaving)) = self.leaving.first().cloned() else { return false };
            if moment > now {
                return false;
            }
            self.leaving.pop_first();
            match leaving {
                Leaving::Record(key) => self.forget_record(key, moment),
                Leaving::Item(item) => self.forget_item(&item),
                Leaving::Stream(name) => self.forget_stream(&name),
                Leaving::Commit(id) => drop(self.remembered.remove(&id)),
            }
        }
        true
    }

    /// An expired record becomes a tombstone; an expired tombstone is removed and raises the floor.
    fn forget_record(&mut self, key: RecordKey, moment: Timestamp) {
        let Some(row) = self.records.remove(&key) else { return };
        match row.value {
            Some(_) => self.put_record(key, RecordRow::tombstone(row.revision, moment)),
            None => self.floors.revision = self.floors.revision.max(row.revision.get()),
        }
    }

    fn forget_item(&mut self, item: &ItemRef) {
        let Some(queue) = self.items.get_mut(&item.queue) else { return };
        let fence = queue.remove(&item.key).and_then(|item| item.fence);
        self.floors.fence = self.floors.fence.max(fence.map_or(0, Fence::get));
        if queue.is_empty() {
            self.items.remove(&item.queue);
        }
    }

    fn forget_stream(&mut self, name: &StreamName) {
        let Some(stream) = self.streams.remove(name) else { return };
        let floor =
            self.version_floors.entry(stream_category(name.as_str()).to_owned()).or_default();
        *floor = (*floor).max(stream.row.version.get());
    }

    fn put_stream(&mut self, name: StreamName, row: StreamRow) {
        let stream = self
            .streams
            .entry(name.clone())
            .or_insert_with(|| Stream { row, events: VecDeque::new() });
        let before = std::mem::replace(&mut stream.row, row).forget_at;
        self.reschedule(before, row.forget_at, Leaving::Stream(name));
    }

    /// Updates an entry of the expiry index.
    fn reschedule(
        &mut self,
        before: Option<Timestamp>,
        after: Option<Timestamp>,
        leaving: Leaving,
    ) {
        if let Some(after) = after {
            self.leaving.insert((after, leaving.clone()));
        }
        if let Some(before) = before.filter(|before| Some(*before) != after) {
            self.leaving.remove(&(before, leaving));
        }
    }

    pub(super) fn find_item(&self, item: &ItemRef) -> Option<&Item> {
        self.items.get(&item.queue)?.get(&item.key)
    }

    pub(super) fn put_item(&mut self, item: Item) {
        let old = self.find_item(&item.item).and_then(place);
        let new = place(&item);
        if old != new {
            let lanes = self.ready.entry(item.item.queue.clone()).or_default();
            if let Some((lane, moment)) = old {
                remove_place(lanes, &lane, moment, &item.item.key);
            }
            if let Some((lane, moment)) = new {
                lanes.entry(lane).or_default().insert((moment, item.item.key.clone()));
            }
        }
        let (name, forget_at) = (item.item.clone(), item.forget_at);
        let queue = self.items.entry(name.queue.clone()).or_default();
        let before = queue.insert(name.key.clone(), item).and_then(|before| before.forget_at);
        self.reschedule(before, forget_at, Leaving::Item(name));
    }

    fn add_event(&mut self, event: Arc<StoredEvent>) {
        self.last_position = Some(event.position);
        self.events.insert(event.id, event.clone());
        self.feed.insert(event.position, event.clone());
        let stream =
            self.streams.get_mut(&event.stream).expect("the plan names the stream of each event");
        stream.events.push_back(event);
    }

    fn trim(&mut self, stream: &StreamName, through: Version) {
        let Some(stream) = self.streams.get_mut(stream) else { return };
        let gone = stream.events.partition_point(|event| event.version <= through);
        for event in stream.events.drain(..gone) {
            self.events.remove(&event.id);
            self.feed.remove(&event.position);
        }
    }

    fn put_record(&mut self, key: RecordKey, row: RecordRow) {
        let after = row.expires_at;
        let before = self.records.insert(key.clone(), row).and_then(|before| before.expires_at);
        self.reschedule(before, after, Leaving::Record(key));
    }
}

type Place = ((LaneName, Reverse<Priority>), Timestamp);

/// An item's place in the ready index.
fn place(item: &Item) -> Option<Place> {
    Some(((item.lane.clone(), Reverse(item.priority)), item.ready_at()?))
}

fn remove_place(
    lanes: &mut ReadyLanes,
    lane: &(LaneName, Reverse<Priority>),
    moment: Timestamp,
    key: &ItemKey,
) {
    let Some(times) = lanes.get_mut(lane) else { return };
    times.remove(&(moment, key.clone()));
    if times.is_empty() {
        lanes.remove(lane);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::TOMBSTONE_MEMORY;
    use crate::{
        AfterTrim, Append, Commit, ExpectedRevision, ExpectedVersion, LeaseRequest, ManualClock,
        MemoryStore, NewEvent, RawJson, RecordWrite, Settlement, Store, Wake, When, WorkerName,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// Creates one of everything that expires; all of it is done when this returns.
    async fn do_and_be_done(store: &MemoryStore) {
        let (stream, soon) = (StreamName::new("run/a").unwrap(), When::In(SECOND));
        let item = ItemRef::parse("work", "a").unwrap();
        let put = |key| {
            RecordWrite::put(
                &RecordKey::new(key).unwrap(),
                ExpectedRevision::Any,
                RawJson::new(&1).unwrap(),
            )
        };
        let begin = Commit::new()
            .with_id(CommitId::fresh())
            .dedup_window(SECOND)
            .append(&stream, ExpectedVersion::NoStream, [NewEvent::of("done", &0).unwrap()])
            .write(put("deleted"))
            .write(put("expiring").expiring(soon))
            .wake(Wake::at(item.clone(), When::NOW));
        store.commit(begin).await.unwrap().committed().unwrap();
        let worker = WorkerName::new("w").unwrap();
        let request = LeaseRequest::new(&item.queue, &worker, SECOND * 60, 1);
        let lease = store.lease(request).await.unwrap().leases.remove(0);
        let end = Commit::new()
            .with_append(Append::closing(&stream, ExpectedVersion::Exact(Version::FIRST)))
            .trim(&stream, Version::FIRST, AfterTrim::Forget(soon))
            .write(RecordWrite::delete(&RecordKey::new("deleted").unwrap(), ExpectedRevision::Any))
            .settle(Settlement::finish(lease.token(), lease.mark, soon));
        store.commit(end).await.unwrap().committed().unwrap();
    }

    /// KEEP-1, KEEP-2, KEEP-3, KEEP-4. What reads as expired is also removed from the maps.
    #[tokio::test]
    async fn what_is_past_its_retention_leaves_the_maps() {
        let clock = ManualClock::default();
        let store = MemoryStore::with_clock(Arc::new(clock.clone()));
        do_and_be_done(&store).await;
        clock.advance(SECOND);
        store.sweep().await.unwrap();
        {
            let state = store.lock();
            let state = state.0.as_ref().unwrap();
            assert!(
                state.streams.is_empty() && state.items.is_empty() && state.remembered.is_empty()
            );
            assert!(state.ready.values().all(BTreeMap::is_empty), "{:?}", state.ready);
            let values: Vec<_> = state.records.values().map(|row| row.value.is_some()).collect();
            assert_eq!(
                values,
                [false, false],
                "tombstones of the deleted and of the expired record"
            );
        }
        clock.advance(TOMBSTONE_MEMORY);
        store.sweep().await.unwrap();
        let state = store.lock();
        let state = state.0.as_ref().unwrap();
        assert!(state.records.is_empty() && state.leaving.is_empty(), "{state:?}");
    }
}
