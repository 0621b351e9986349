//! What keeps an application busy: a test is idle when nothing of it is left.

use std::collections::HashSet;
use std::sync::Arc;

use tidelock_store::{ItemFilter, ItemQuery, MemoryStore, QueueName, Result, Store, StoreExt};

use crate::App;
use crate::queues::ItemState;
use crate::reactions::{Reaction, is_behind};

/// The queues and reactions of an application.
pub(super) struct Served {
    queues: HashSet<QueueName>,
    reactions: Vec<Arc<Reaction>>,
}

impl Served {
    pub(super) fn by(app: &App) -> Self {
        Self { queues: app.queues().into_iter().collect(), reactions: app.reactions().to_vec() }
    }

    /// Says what the application works on, or will at once; `None` if there is nothing before a
    /// later time, a signal or an event.
    ///
    /// # Errors
    /// The store's errors.
    pub(super) async fn busy(&self, store: &MemoryStore) -> Result<Option<String>> {
        for reaction in &self.reactions {
            if is_behind(store, reaction).await? {
                return Ok(Some(format!(
                    "reaction {:?} has events to route",
                    reaction.name.as_str()
                )));
            }
        }
        let now = store.now().await?;
        let mut items = store.rows(ItemQuery::new(ItemFilter::default().blocked(false)));
        while let Some(item) = items.next().await? {
            let state = ItemState::of(&item, now);
            let works = matches!(state, ItemState::Held | ItemState::Expired | ItemState::Due);
            if works && self.queues.contains(&item.item.queue) {
                return Ok(Some(format!("{} is {}", item.item, state.as_str())));
            }
        }
        Ok(None)
    }
}
