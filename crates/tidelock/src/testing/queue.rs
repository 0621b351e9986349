//! The items of a queue, to assert on.

use serde::de::DeserializeOwned;
use tidelock_store::{Item, ItemFilter, ItemQuery, MemoryStore, StoreExt, Timestamp};

use super::compare::{assert_same, names};
use super::finish;
use crate::queues::ItemState;

/// The items of a queue that have work, as they were when this was read: the ones that are due
/// first come first.
#[derive(Debug, Clone)]
pub struct TestQueue {
    queue: String,
    now: Timestamp,
    store: MemoryStore,
    items: Vec<Item>,
}

impl TestQueue {
    #[track_caller]
    pub(super) fn of(store: &MemoryStore, queue: &str) -> Self {
        let query = ItemQuery::new(ItemFilter::queue(queue));
        let mut items = finish(store.rows(query).all()).expect("the name of a queue");
        let now = finish(tidelock_store::Store::now(store)).expect("a store in memory is readable");
        items.retain(|item| ItemState::of(item, now) != ItemState::Idle);
        items.sort_by(|one, other| (one.due, &one.item.key).cmp(&(other.due, &other.item.key)));
        Self { queue: queue.to_owned(), now, store: store.clone(), items }
    }

    /// Returns the keys, the ones that are due first at the beginning.
    pub fn keys(&self) -> Vec<String> {
        names(self.items.iter().map(|item| item.item.key.as_str()))
    }

    /// Returns the items.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the state of the item with this key; `None` if it has no work.
    pub fn state(&self, key: &str) -> Option<ItemState> {
        self.items
            .iter()
            .find(|item| item.item.key.as_str() == key)
            .map(|item| ItemState::of(item, self.now))
    }

    /// Returns the data that the item with this key was enqueued with.
    ///
    /// # Panics
    /// If it is not a `T`.
    #[track_caller]
    pub fn data<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let item = &self.items.iter().find(|item| item.item.key.as_str() == key)?.item;
        let read = finish(crate::queues::data_of(&self.store, item));
        let data = read.expect("a store in memory is readable")?;
        Some(data.to().unwrap_or_else(|error| panic!("data of {item}: {error}")))
    }

    /// Asserts that exactly the items with these keys have work, the ones that are due first at
    /// the beginning.
    ///
    /// # Panics
    /// If there are others.
    #[track_caller]
    pub fn assert_keys<'a>(&self, expected: impl IntoIterator<Item = &'a str>) -> &Self {
        assert_same(&format!("items of queue {:?}", self.queue), &names(expected), &self.keys());
        self
    }

    /// Asserts that no item has work.
    ///
    /// # Panics
    /// If one has.
    #[track_caller]
    pub fn assert_empty(&self) {
        self.assert_keys([]);
    }
}
