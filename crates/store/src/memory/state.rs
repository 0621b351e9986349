//! What a memory store holds, and how a plan changes it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::commit::Committed;
use crate::error::Result;
use crate::ids::{CommitId, EventId};
use crate::leases::{Item, ItemRef};
use crate::limits;
use crate::log::Event;
use crate::marks::{Position, Priority, Version};
use crate::names::{ItemKey, LaneName, QueueName, RecordKey, StreamName};
use crate::plan::{Plan, RecordRow, Remembered, Rows, StreamRow};

/// Everything, in maps that are ordered wherever somebody reads in order.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) streams: BTreeMap<StreamName, Stream>,
    pub(super) feed: BTreeMap<Position, Arc<Event>>,
    pub(super) events: HashMap<EventId, Arc<Event>>,
    pub(super) last_position: Option<Position>,
    pub(super) records: BTreeMap<RecordKey, RecordRow>,
    /// Records by expiry, so that sweeping never looks at those that live on.
    expiring: BTreeSet<(Timestamp, RecordKey)>,
    pub(super) items: BTreeMap<QueueName, BTreeMap<ItemKey, Item>>,
    /// What is or will be ready, so that leasing never looks at what is idle.
    pub(super) ready: BTreeMap<QueueName, ReadyLanes>,
    remembered: HashMap<CommitId, Remembered>,
    /// Commit ids by age, so that the oldest can be forgotten.
    remembered_since: VecDeque<(Timestamp, CommitId)>,
}

/// The items of one queue that are or will be ready, by lane and priority, and there by time.
pub(super) type ReadyLanes = BTreeMap<(LaneName, Reverse<Priority>), BTreeSet<(Timestamp, ItemKey)>>;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) row: StreamRow,
    /// The events that are left, by version.
    pub(super) events: VecDeque<Arc<Event>>,
}

impl Rows for State {
    fn remembered(&mut self, id: CommitId) -> Result<Option<Remembered>> {
        Ok(self.remembered.get(&id).cloned())
    }

    fn stream(&mut self, name: &StreamName) -> Result<Option<StreamRow>> {
        Ok(self.streams.get(name).map(|stream| stream.row))
    }

    fn event(&mut self, id: EventId) -> Result<Option<Event>> {
        Ok(self.events.get(&id).map(|event| Event::clone(event)))
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
}

impl State {
    pub(super) fn apply(&mut self, plan: Plan, now: Timestamp) -> Committed {
        for (stream, row) in plan.streams {
            let empty = || Stream { row, events: VecDeque::new() };
            self.streams.entry(stream).or_insert_with(empty).row = row;
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
            self.remembered.insert(id, remembered);
            self.remembered_since.push_back((now, id));
        }
        plan.committed
    }

    /// Forgets what has had its time, a little with every commit, so that no commit pays for all of it.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        const AT_ONCE: usize = 8;
        for _ in 0..AT_ONCE {
            let Some((expiry, key)) = self.expiring.pop_first() else { break };
            if expiry > now {
                self.expiring.insert((expiry, key));
                break;
            }
            if let Some(row) = self.records.get_mut(&key) {
                (row.value, row.expires_at) = (None, None);
            }
        }
        while let Some((since, id)) = self.remembered_since.front().copied() {
            if now.since(since) < limits::COMMIT_MEMORY {
                break;
            }
            self.remembered_since.pop_front();
            self.remembered.remove(&id);
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
        let queue = self.items.entry(item.item.queue.clone()).or_default();
        queue.insert(item.item.key.clone(), item);
    }

    fn add_event(&mut self, event: Arc<Event>) {
        self.last_position = Some(event.position);
        self.events.insert(event.id, event.clone());
        self.feed.insert(event.position, event.clone());
        let stream = self.streams.get_mut(&event.stream).expect("the plan names the stream of each event");
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
        if let Some(expiry) = row.expires_at {
            self.expiring.insert((expiry, key.clone()));
        }
        let new_expiry = row.expires_at;
        if let Some(old) = self.records.insert(key.clone(), row)
            && let Some(expiry) = old.expires_at.filter(|old| Some(*old) != new_expiry)
        {
            self.expiring.remove(&(expiry, key));
        }
    }
}

type Place = ((LaneName, Reverse<Priority>), Timestamp);

/// Where an item stands in the order of what is ready.
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
