//! What an operator's command is done to: targets of reactions, or items of queues.

use std::sync::Arc;

use tidelock::reactions::{ReactionFilter, Reactions, ResetEffects};
use tidelock::{
    Adjusted, Adjustment, Item, ItemFilter, ItemQuery, Mark, Missing, NamePattern, Priority, Store,
    StoreExt, When,
};

use crate::args::Which;
use crate::failure::Failure;

/// Items are counted up to here; more are more than anybody looks at one by one.
const COUNTED: usize = 100_000;

/// Items that are meant, on a store.
pub(crate) struct Selection {
    store: Arc<dyn Store>,
    meant: Meant,
}

enum Meant {
    Targets(ReactionFilter),
    Items(ItemFilter),
}

/// What a look at the selection found.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    /// The first of them.
    pub(crate) shown: Vec<Item>,
    pub(crate) count: usize,
    /// Whether there are more than were counted.
    pub(crate) more: bool,
}

impl Selection {
    pub(crate) fn new(store: &Arc<dyn Store>, which: Which) -> Self {
        let meant = match which.queue {
            Some(queue) => Meant::Items(ItemFilter {
                queue,
                key: which.key.unwrap_or_default(),
                lane: which.lane,
                ..ItemFilter::default()
            }),
            None => Meant::Targets(targets(which)),
        };
        Self { store: store.clone(), meant }
    }

    /// The same, of what is blocked.
    pub(crate) fn blocked(self) -> Self {
        let meant = match self.meant {
            Meant::Targets(filter) => Meant::Targets(filter.blocked(true)),
            Meant::Items(filter) => Meant::Items(filter.blocked(true)),
        };
        Self { meant, ..self }
    }

    /// What the things that are meant are called.
    pub(crate) fn noun(&self) -> &'static str {
        match self.meant {
            Meant::Targets(_) => "target",
            Meant::Items(_) => "item",
        }
    }

    pub(crate) async fn unblock(&self) -> Result<Adjusted, Failure> {
        Ok(match &self.meant {
            Meant::Targets(filter) => self.reactions().unblock(filter).await?,
            Meant::Items(filter) => self.store.adjust(filter.clone(), Adjustment::Unblock).await?,
        })
    }

    pub(crate) async fn reset(
        &self,
        effects: ResetEffects,
        partial: bool,
    ) -> Result<Adjusted, Failure> {
        Ok(match &self.meant {
            Meant::Targets(filter) if partial => {
                self.reactions().reset_partial(filter, effects).await?
            }
            Meant::Targets(filter) => self.reactions().reset(filter, effects).await?,
            Meant::Items(filter) => {
                self.store.adjust(filter.clone(), Adjustment::Reset { to: Mark::ZERO }).await?
            }
        })
    }

    pub(crate) async fn defer(&self, until: When) -> Result<Adjusted, Failure> {
        Ok(match &self.meant {
            Meant::Targets(filter) => self.reactions().defer(filter, until).await?,
            Meant::Items(filter) => {
                self.store.adjust(filter.clone(), Adjustment::Defer { until }).await?
            }
        })
    }

    pub(crate) async fn prioritize(&self, priority: i16) -> Result<Adjusted, Failure> {
        Ok(match &self.meant {
            Meant::Targets(filter) => self.reactions().prioritize(filter, priority).await?,
            Meant::Items(filter) => {
                let priority = Priority::new(priority)?;
                self.store.adjust(filter.clone(), Adjustment::Prioritize { priority }).await?
            }
        })
    }

    /// Refuses a name that nothing has; for a command that found nothing to do.
    pub(crate) async fn check_names(&self) -> Result<(), Failure> {
        let missing = match &self.meant {
            Meant::Targets(filter) => self.reactions().missing(filter).await?,
            Meant::Items(filter) => Missing::among_items(&*self.store, filter).await?,
        };
        missing.map_or(Ok(()), |missing| Err(missing.into()))
    }

    /// Looks at what is meant, and shows so many of it at most.
    pub(crate) async fn look(&self, show: usize) -> Result<Matched, Failure> {
        let mut matched = Matched::default();
        for filter in self.filters().await? {
            matched.look(&*self.store, filter, show).await?;
        }
        Ok(matched)
    }

    async fn filters(&self) -> Result<Vec<ItemFilter>, Failure> {
        Ok(match &self.meant {
            Meant::Targets(filter) => self.reactions().item_filters(filter).await?,
            Meant::Items(filter) => vec![filter.clone()],
        })
    }

    fn reactions(&self) -> Reactions {
        Reactions::new(self.store.clone())
    }
}

impl Matched {
    async fn look(
        &mut self,
        store: &dyn Store,
        filter: ItemFilter,
        show: usize,
    ) -> Result<(), Failure> {
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

fn targets(which: Which) -> ReactionFilter {
    let filter = ReactionFilter::all()
        .reactions(which.reaction.unwrap_or_default())
        .targets(which.target.unwrap_or(NamePattern::Any));
    let filter = which.source.into_iter().fold(filter, ReactionFilter::sources);
    which.lane.into_iter().fold(filter, ReactionFilter::lane)
}
