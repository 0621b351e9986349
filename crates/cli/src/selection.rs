//! The subject of an operator's command: targets of reactions, or items of queues.

use std::sync::Arc;

use tidelock::reactions::{ReactionFilter, Reactions, ResetEffects};
use tidelock::store::{
    Adjusted, Adjustment, Item, ItemFilter, ItemQuery, Mark, NamePattern, Priority, Store, StoreExt,
};
use tidelock::{Missing, When};

use crate::args::Selector;
use crate::failure::Result;

/// Items are counted up to here: more cannot be inspected one by one anyway.
const COUNTED: usize = 100_000;

/// Selected items of a store.
pub(crate) struct Selection {
    store: Arc<dyn Store>,
    meant: SelectedItems,
}

enum SelectedItems {
    Targets(ReactionFilter),
    Items(ItemFilter),
}

/// The matched items.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    /// The first of them.
    pub(crate) shown: Vec<Item>,
    pub(crate) count: usize,
    /// Whether there are more than were counted.
    pub(crate) more: bool,
}

impl Selection {
    pub(crate) fn new(store: &Arc<dyn Store>, which: Selector) -> Self {
        let meant = match which.queue {
            Some(queue) => SelectedItems::Items(ItemFilter {
                queue,
                key: which.key.unwrap_or_default(),
                lane: which.lane,
                ..ItemFilter::default()
            }),
            None => SelectedItems::Targets(targets(which)),
        };
        Self { store: store.clone(), meant }
    }

    /// Restricts the selection to blocked items.
    pub(crate) fn blocked(self) -> Self {
        let meant = match self.meant {
            SelectedItems::Targets(filter) => SelectedItems::Targets(filter.blocked(true)),
            SelectedItems::Items(filter) => SelectedItems::Items(filter.blocked(true)),
        };
        Self { meant, ..self }
    }

    /// The noun for the selected items.
    pub(crate) fn noun(&self) -> &'static str {
        match self.meant {
            SelectedItems::Targets(_) => "target",
            SelectedItems::Items(_) => "item",
        }
    }

    pub(crate) async fn unblock(&self) -> Result<Adjusted> {
        Ok(match &self.meant {
            SelectedItems::Targets(filter) => self.reactions().unblock(filter).await?,
            SelectedItems::Items(filter) => {
                self.store.adjust(filter.clone(), Adjustment::Unblock).await?
            }
        })
    }

    pub(crate) async fn reset(&self, effects: ResetEffects, partial: bool) -> Result<Adjusted> {
        Ok(match &self.meant {
            SelectedItems::Targets(filter) if partial => {
                self.reactions().reset_partial(filter, effects).await?
            }
            SelectedItems::Targets(filter) => self.reactions().reset(filter, effects).await?,
            SelectedItems::Items(filter) => {
                self.store.adjust(filter.clone(), Adjustment::Reset { to: Mark::ZERO }).await?
            }
        })
    }

    pub(crate) async fn defer(&self, until: When) -> Result<Adjusted> {
        Ok(match &self.meant {
            SelectedItems::Targets(filter) => self.reactions().defer(filter, until).await?,
            SelectedItems::Items(filter) => {
                self.store.adjust(filter.clone(), Adjustment::Defer { until }).await?
            }
        })
    }

    pub(crate) async fn prioritize(&self, priority: i16) -> Result<Adjusted> {
        Ok(match &self.meant {
            SelectedItems::Targets(filter) => self.reactions().prioritize(filter, priority).await?,
            SelectedItems::Items(filter) => {
                let priority = Priority::new(priority)?;
                self.store.adjust(filter.clone(), Adjustment::Prioritize { priority }).await?
            }
        })
    }

    /// Refuses a name that does not exist; for a command that matched nothing.
    pub(crate) async fn check_names(&self) -> Result<()> {
        let missing = match &self.meant {
            SelectedItems::Targets(filter) => self.reactions().missing(filter).await?,
            SelectedItems::Items(filter) => Missing::among_items(&*self.store, filter).await?,
        };
        missing.map_or(Ok(()), |missing| Err(missing.into()))
    }

    /// Counts the matches, and returns the first so many.
    pub(crate) async fn look(&self, show: usize) -> Result<Matched> {
        let mut matched = Matched::default();
        for filter in self.filters().await? {
            matched.look(&*self.store, filter, show).await?;
        }
        Ok(matched)
    }

    async fn filters(&self) -> Result<Vec<ItemFilter>> {
        Ok(match &self.meant {
            SelectedItems::Targets(filter) => self.reactions().item_filters(filter).await?,
            SelectedItems::Items(filter) => vec![filter.clone()],
        })
    }

    fn reactions(&self) -> Reactions {
        Reactions::new(self.store.clone())
    }
}

impl Matched {
    async fn look(&mut self, store: &dyn Store, filter: ItemFilter, show: usize) -> Result<()> {
        let mut items = store.rows(ItemQuery::new(filter));
        while let Some(item) = items.next().await? {
            if self.count >= COUNTED {
                self.more = true;
                return Ok(());
            }
            self.count += 1;
            if self.shown.len() < show {
                self.shown.push(item);
            }
        }
        Ok(())
    }
}

fn targets(which: Selector) -> ReactionFilter {
    let filter = ReactionFilter::all()
        .reactions(which.reaction.unwrap_or_default())
        .targets(which.target.unwrap_or(NamePattern::Any));
    let filter = which.source.into_iter().fold(filter, ReactionFilter::sources);
    which.lane.into_iter().fold(filter, ReactionFilter::lane)
}
