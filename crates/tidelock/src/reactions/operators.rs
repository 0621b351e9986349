//! What operators do: look, unblock, reset, defer, prioritize, by names or by filter.

mod filter;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tidelock_store::{
    Adjusted, Adjustment, Commit, ExpectedRevision, Item, ItemFilter, ItemKey, ItemQuery, ItemRef,
    LaneName, Mark, NamePattern, Priority, QueueName, RawJson, Record, RecordQuery, RecordWrite,
    Result, Store, StoreError, StoreExt, When, limits,
};

use super::rebuild::{Rebuild, Rebuilding};
use super::router::{Cursor, Rerouted};
use super::{
    EventsGone, FollowedPage, ReactionName, ResetError, RouteState, StartFrom, TargetInfo, keys,
};
use crate::missing::{Missing, is_any, near};

pub use filter::ReactionFilter;

/// Whether what a reaction did outside the store is done again when it is rebuilt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResetEffects {
    /// It is not: `external` is left out for events that were handled before.
    #[default]
    Keep,
    /// It is.
    Repeat,
}

/// The reactions of a store, whoever runs them.
#[derive(Debug, Clone)]
pub struct Reactions {
    store: Arc<dyn Store>,
}

impl Reactions {
    /// The reactions of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Every target that passes, with its lag, failures, holder and error, by reaction and target.
    pub async fn list(&self, filter: &ReactionFilter) -> Result<Vec<TargetInfo>> {
        Ok(self.items(filter).await?.into_iter().filter_map(TargetInfo::of).collect())
    }

    /// A page of the targets that pass, after this one, for those who must not read all of them at
    /// once. What feeds a target is not looked at.
    pub async fn page(
        &self,
        filter: &ReactionFilter,
        after: Option<ItemRef>,
        limit: usize,
    ) -> Result<FollowedPage> {
        let query = ItemQuery { filter: filter.items(), after, limit };
        let page = self.store.full_page(query).await?;
        let targets = page.items.into_iter().filter_map(TargetInfo::of).collect();
        Ok(FollowedPage { targets, next: page.next })
    }

    /// One target of one reaction.
    pub async fn target(&self, reaction: &str, target: &str) -> Result<Option<TargetInfo>> {
        Ok(self.list(&ReactionFilter::named(reaction).target(target)).await?.pop())
    }

    /// How far the routing of each reaction is, and who does it.
    pub async fn routes(&self) -> Result<Vec<RouteState>> {
        let filter =
            ItemFilter { queue: NamePattern::like(keys::route_queues()), ..ItemFilter::default() };
        let mut items: BTreeMap<String, Item> = BTreeMap::new();
        for item in self.all(filter).await? {
            items.insert(item.item.queue.as_str().to_owned(), item);
        }
        let mut routes = Vec::new();
        for record in self.records(keys::route_records()).await? {
            let cursor: Cursor = record.value.to()?;
            let item = items.remove(record.key.as_str());
            routes.extend(route_state(record.key.as_str(), cursor, item));
        }
        Ok(routes)
    }

    /// Blocked targets that pass go on where they stopped, at once. Events without a route are
    /// tried again.
    pub async fn unblock(&self, filter: &ReactionFilter) -> Result<Adjusted> {
        self.adjust(&filter.clone().blocked(true), &Adjustment::Unblock).await
    }

    /// Targets that pass begin anew: every event is handled again. What they did outside the store
    /// is done again only if asked for. Whoever is at one of them loses the lease.
    ///
    /// Effects of events that were handled while this call was under way may be repeated; they have
    /// the same key.
    ///
    /// # Errors
    /// [`EventsGone`](ResetError::EventsGone) if events that a target has handled were cleared away
    /// since, by [closing](crate::Closing) the books of their stream: it would be rebuilt without
    /// them. Nothing is reset then.
    pub async fn reset(
        &self,
        filter: &ReactionFilter,
        effects: ResetEffects,
    ) -> Result<Adjusted, ResetError> {
        let items = self.resettable(filter).await?;
        EventsGone::refuse(&*self.store, &items, &self.cursors().await?).await?;
        Ok(self.reset_items(items, effects, false).await?)
    }

    /// The same, whatever is gone: every event that is left is handled again, and a projection's
    /// row is made of those alone. Where nothing is left, the row is deleted; tables that a handler
    /// writes to itself are its own affair.
    ///
    /// # Errors
    /// What the store says.
    pub async fn reset_partial(
        &self,
        filter: &ReactionFilter,
        effects: ResetEffects,
    ) -> Result<Adjusted> {
        let items = self.resettable(filter).await?;
        self.reset_items(items, effects, true).await
    }

    async fn resettable(&self, filter: &ReactionFilter) -> Result<Vec<Item>> {
        let items = self.items(filter).await?.into_iter();
        Ok(items.filter(|item| !keys::is_unrouted(&item.item.key)).collect())
    }

    async fn reset_items(
        &self,
        items: Vec<Item>,
        effects: ResetEffects,
        partial: bool,
    ) -> Result<Adjusted> {
        let mut by_queue: BTreeMap<QueueName, Vec<Item>> = BTreeMap::new();
        for item in items {
            by_queue.entry(item.item.queue.clone()).or_default().push(item);
        }
        let mut sum = Adjusted::default();
        for (queue, items) in by_queue {
            for items in items.chunks(limits::PARTS_PER_COMMIT / 2) {
                self.note_rebuilds(items, effects, partial).await?;
                let keys = items.iter().map(|item| item.item.key.as_str().to_owned()).collect();
                let filter = ItemFilter::queue(queue.as_str()).key(NamePattern::OneOf(keys));
                let adjusted =
                    self.store.adjust(filter, Adjustment::Reset { to: Mark::ZERO }).await?;
                sum = plus(sum, adjusted);
            }
        }
        Ok(sum)
    }

    /// Targets that pass are not handled before then.
    pub async fn defer(&self, filter: &ReactionFilter, until: When) -> Result<Adjusted> {
        self.adjust(filter, &Adjustment::Defer { until }).await
    }

    /// Targets that pass get this priority, from -100 to 100.
    pub async fn prioritize(&self, filter: &ReactionFilter, priority: i16) -> Result<Adjusted> {
        let priority = Priority::new(priority)?;
        self.adjust(filter, &Adjustment::Prioritize { priority }).await
    }

    /// Targets that pass move to this lane.
    pub async fn move_to(&self, filter: &ReactionFilter, lane: &str) -> Result<Adjusted> {
        let lane = LaneName::new(lane)?;
        self.adjust(filter, &Adjustment::Move { lane }).await
    }

    /// Routes a reaction's events anew: from the beginning, or from the end as it is now. For a
    /// reaction whose routing has stopped because the log is not the one it knew (it was restored,
    /// or imported).
    ///
    /// Targets that are streams go on at their own versions, whatever this says; reset them to
    /// begin anew. Events that are routed again to computed targets are handled again.
    pub async fn reroute(&self, reaction: &str, from: StartFrom) -> Result<Rerouted> {
        super::router::reroute(&self.store, &named(reaction)?, from, None).await
    }

    /// The same, once: if it was done before under this id, nothing is routed anew. It is
    /// remembered for seven days.
    pub async fn reroute_once(
        &self,
        reaction: &str,
        from: StartFrom,
        operation: impl AsRef<str>,
    ) -> Result<Rerouted> {
        super::router::reroute(&self.store, &named(reaction)?, from, Some(operation.as_ref())).await
    }

    /// The row that a projection keeps for a target.
    pub async fn row<S: DeserializeOwned>(
        &self,
        projection: &str,
        target: &str,
    ) -> Result<Option<S>> {
        let slot = self.store.get_one(&keys::row(projection, target)?).await?;
        slot.into_live().map(|record| record.value.to()).transpose()
    }

    /// All rows of a projection, by target.
    pub async fn rows<S: DeserializeOwned>(&self, projection: &str) -> Result<Vec<(String, S)>> {
        let prefix = keys::rows(projection);
        let records = self.records(&prefix).await?;
        let row = |record: Record| {
            Ok((record.key.as_str()[prefix.len()..].to_owned(), record.value.to()?))
        };
        records.into_iter().map(row).collect()
    }

    /// The name in this filter that nothing has, if there is one: for whoever was told that nothing
    /// is meant. A pattern is no name.
    ///
    /// # Errors
    /// What the store says.
    pub async fn missing(&self, filter: &ReactionFilter) -> Result<Option<Missing>> {
        if let Some(name) = filter.reaction()
            && let Some(missing) = self.missing_reaction(name).await?
        {
            return Ok(Some(missing));
        }
        let meant = self.item_filters(&filter.in_any_state()).await?;
        if let Some(name) = filter.only_target() {
            let mut is_there = false;
            for filter in &meant {
                is_there = is_there || is_any(&*self.store, filter).await?;
            }
            if !is_there {
                return Ok(Some(Missing::Target { name: name.to_owned() }));
            }
        }
        Missing::lane(&*self.store, &meant, &filter.items()).await
    }

    /// This reaction, if it was never registered and has no target.
    ///
    /// # Errors
    /// What the store says.
    pub async fn missing_reaction(&self, name: &str) -> Result<Option<Missing>> {
        let routes = self.cursors().await?;
        let is_known = routes.iter().any(|(known, _)| known == name)
            || is_any(&*self.store, &ReactionFilter::named(name).items()).await?;
        let near = || near(name, routes.iter().map(|(known, _)| known.as_str()));
        Ok((!is_known).then(|| Missing::Reaction { name: name.to_owned(), near: near() }))
    }

    async fn adjust(&self, filter: &ReactionFilter, adjustment: &Adjustment) -> Result<Adjusted> {
        let mut sum = Adjusted::default();
        for filter in self.item_filters(filter).await? {
            sum = plus(sum, self.store.adjust(filter, adjustment.clone()).await?);
        }
        Ok(sum)
    }

    async fn items(&self, filter: &ReactionFilter) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for filter in self.item_filters(filter).await? {
            items.extend(self.all(filter).await?);
        }
        Ok(items)
    }

    /// The work items that are meant, as the store knows them: one filter, or one for each
    /// reaction.
    pub async fn item_filters(&self, filter: &ReactionFilter) -> Result<Vec<ItemFilter>> {
        match filter.needs_sources() {
            true => Ok(filter.fed_by_sources(&self.cursors().await?)),
            false => Ok(vec![filter.items()]),
        }
    }

    pub(super) async fn cursors(&self) -> Result<Vec<(String, Cursor)>> {
        let records = self.records(keys::route_records()).await?;
        let named = records.into_iter().filter_map(|record| {
            let name = keys::routed_reaction(record.key.as_str())?.to_owned();
            Some(record.value.to().map(|cursor| (name, cursor)))
        });
        named.collect()
    }

    async fn records(&self, prefix: &str) -> Result<Vec<Record>> {
        self.store.rows(RecordQuery::prefix(prefix)).all().await
    }

    pub(super) async fn all(&self, filter: ItemFilter) -> Result<Vec<Item>> {
        self.store.rows(ItemQuery::new(filter)).all().await
    }

    /// Notes for each item how far it had come. A rebuild that was under way keeps the further
    /// mark.
    async fn note_rebuilds(
        &self,
        items: &[Item],
        effects: ResetEffects,
        partial: bool,
    ) -> Result<()> {
        let keys: Vec<_> = items
            .iter()
            .map(|item| rebuild_key(&item.item.queue, &item.item.key))
            .collect::<Result<_>>()?;
        let slots = self.store.get(&keys).await?;
        let mut commit = Commit::new();
        for ((item, key), slot) in items.iter().zip(&keys).zip(&slots) {
            let before = Rebuild::read(slot)?.map_or(Mark::ZERO, |rebuild| rebuild.told.through);
            let effects = effects == ResetEffects::Repeat;
            let told = Rebuilding { through: item.at.max(before), effects, partial };
            commit =
                commit.write(RecordWrite::put(key, ExpectedRevision::Any, RawJson::new(&told)?));
        }
        let _noted = self.store.commit(commit).await?;
        Ok(())
    }
}

fn rebuild_key(queue: &QueueName, key: &ItemKey) -> Result<tidelock_store::RecordKey> {
    keys::rebuild(keys::reaction_of(queue).unwrap_or_default(), key)
}

fn plus(one: Adjusted, other: Adjusted) -> Adjusted {
    Adjusted { matched: one.matched + other.matched, changed: one.changed + other.changed }
}

fn route_state(key: &str, cursor: Cursor, item: Option<Item>) -> Option<RouteState> {
    let reaction = keys::routed_reaction(key)?.to_owned();
    let own = keys::route_item(&ReactionName::new(&reaction).ok()?);
    let (holder, blocked, error) =
        item.map_or((None, false, None), |i| (i.holder, i.blocked, i.error));
    Some(RouteState {
        reaction,
        item: own,
        streams: cursor.streams,
        position: cursor.position,
        start: cursor.start,
        holder,
        blocked,
        error,
    })
}

fn named(reaction: &str) -> Result<ReactionName> {
    ReactionName::new(reaction).map_err(|e| StoreError::invalid(e.to_string()))
}
