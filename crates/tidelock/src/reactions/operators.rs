//! Operator API: list, unblock, skip, reset, defer and prioritize targets.

mod filter;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidelock_store::{
    Adjusted, Adjustment, Commit, ExpectedRevision, Item, ItemFilter, ItemKey, ItemQuery, ItemRef,
    LaneName, Mark, NamePattern, Priority, QueueName, RawJson, Record, RecordKey, RecordQuery,
    RecordWrite, Result, Store, StoreError, StoreExt, When, limits,
};

use super::rebuild::{Rebuild, StoredRebuild};
use super::router::{Cursor, Rerouted};
use super::skip::{self, SkipOutcome, SkippedEvent};
use super::{EventsGone, ReactionName, ResetError, RouteState, StartFrom, TargetInfo, keys};
use crate::list::{List, Page};
use crate::missing::{Missing, is_any, near};
use crate::pauses::{self, PauseSubject};

pub use filter::ReactionFilter;

/// Whether a rebuild repeats external effects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResetEffects {
    /// Suppress them: `external` skips events that were handled before.
    #[default]
    Keep,
    /// Repeat them.
    Repeat,
}

/// The reactions of a store, whichever process runs them.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidelock::prelude::*;
/// use tidelock::reactions::ReactionFilter;
///
/// let tidelock = Tidelock::open("memory:").await?;
/// let blocked = ReactionFilter::named("mail").blocked(true);
/// for target in tidelock.reactions().list(&blocked).all().await? {
///     println!("{}: {} events behind: {:?}", target.target, target.lag(), target.error);
/// }
/// tidelock.reactions().unblock(&blocked).await?; // after the cause is fixed
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Reactions {
    store: Arc<dyn Store>,
}

impl Reactions {
    /// Creates the operator's view of a store's reactions.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Lists the targets that match, ordered by reaction and target.
    ///
    /// Each comes with its lag, failures, lease holder and error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::reactions::ReactionFilter;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let targets = tidelock.reactions().list(&ReactionFilter::named("mail")).all().await?;
    /// let lag: u64 = targets.iter().map(|target| target.lag()).sum();
    /// assert_eq!(lag, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, filter: &ReactionFilter) -> List<TargetInfo, ItemRef> {
        let (reactions, filter) = (self.clone(), filter.clone());
        List::new(move |after, limit| {
            let (reactions, filter) = (reactions.clone(), filter.clone());
            async move { Ok(reactions.page(&filter, after, limit).await?) }
        })
    }

    /// Reads one page, filter by filter: they are ordered by queue, as the items are.
    async fn page(
        &self,
        filter: &ReactionFilter,
        after: Option<ItemRef>,
        limit: usize,
    ) -> Result<Page<TargetInfo, ItemRef>> {
        let mut items: Vec<TargetInfo> = Vec::new();
        let mut filters = self.item_filters(filter).await?.into_iter();
        while let Some(filter) = filters.next() {
            let (after, left) = (after.clone(), limit.saturating_sub(items.len()));
            let page = self.store.full_page(ItemQuery { filter, after, limit: left }).await?;
            let last = page.items.last().map(|item| item.item.clone());
            items.extend(page.items.into_iter().filter_map(TargetInfo::of));
            if page.next.is_some() {
                return Ok(Page { items, next: page.next });
            }
            if last.is_some() && items.len() >= limit && filters.len() > 0 {
                return Ok(Page { items, next: last });
            }
        }
        Ok(Page { items, next: None })
    }

    /// Returns one target of one reaction, if it exists.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn target(
        &self,
        reaction: impl AsRef<str>,
        target: impl AsRef<str>,
    ) -> Result<Option<TargetInfo>> {
        let filter = ReactionFilter::named(reaction).target(target);
        Ok(self.page(&filter, None, 1).await?.items.pop())
    }

    /// Returns the routing state of each reaction.
    ///
    /// # Errors
    /// Returns the store's error.
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

    /// Unblocks matching targets. They continue at once where they stopped; unrouted events are
    /// routed again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::reactions::ReactionFilter;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let adjusted = tidelock.reactions().unblock(&ReactionFilter::named("mail").target("order-7")).await?;
    /// assert_eq!(adjusted.changed, 0, "no such target is blocked");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn unblock(&self, filter: &ReactionFilter) -> Result<Adjusted> {
        self.adjust(&filter.clone().blocked(true), &Adjustment::Unblock).await
    }

    /// Skips the one event that a target is blocked on, for a reason that is kept: later events of
    /// the target are handled.
    ///
    /// Which event that is, the next worker that leases the target knows: it skips the first event
    /// that the reaction handles after `seen.at`, and records it ([`skipped`](Self::skipped)) in
    /// the commit that moves the target past it. Nothing happens if the target is not blocked where
    /// it was seen, so the same call again does not skip another event. A [reset](Self::reset)
    /// handles skipped events again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// use tidelock::prelude::*;
    /// use tidelock::reactions::SkipOutcome;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let reactions = tidelock.reactions();
    /// if let Some(seen) = reactions.target("mail", "order-7").await? {
    ///     let outcome = reactions.skip(&seen, "a test order of March").await?;
    ///     assert_eq!(outcome, SkipOutcome::Requested);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the reason is empty. If it fails halfway, the
    /// target is still blocked, and the same call again unblocks it.
    pub async fn skip(&self, seen: &TargetInfo, reason: &str) -> Result<SkipOutcome> {
        let outcome = skip::request(&*self.store, seen, reason).await?;
        if outcome == SkipOutcome::Requested {
            let item = skip::item_of(seen)?;
            let filter = ItemFilter::queue(item.queue.as_str())
                .key(NamePattern::is(item.key.as_str()))
                .blocked(true);
            self.store.adjust(filter, Adjustment::Unblock).await?;
        }
        Ok(outcome)
    }

    /// Lists the events that were skipped, of one reaction or of all, ordered by reaction and
    /// position. They are kept as long as the store.
    pub fn skipped(&self, reaction: Option<&str>) -> List<SkippedEvent, RecordKey> {
        let (store, prefix) = (self.store.clone(), keys::skipped_of(reaction));
        List::new(move |after, limit| {
            let (store, prefix) = (store.clone(), prefix.clone());
            async move {
                let page = store.full_page(RecordQuery { prefix, after, limit }).await?;
                let read = page.records.iter().map(|record| record.value.to());
                Ok(Page { items: read.collect::<Result<_>>()?, next: page.next })
            }
        })
    }

    /// Resets matching targets to the beginning: every event is handled again.
    ///
    /// `effects` decides whether external effects are repeated. Current leases on the targets are
    /// revoked. Effects of events handled during this call may be repeated; they have the same
    /// idempotency key.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::reactions::{ReactionFilter, ResetEffects};
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// // Rebuild every row of a projection.
    /// let sales = ReactionFilter::named("sales");
    /// tidelock.reactions().reset(&sales, ResetEffects::Keep).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EventsGone`](ResetError::EventsGone) if events that a target handled were deleted since,
    /// by [closing](crate::closing::Closing) their stream: the rebuild would be incomplete. Nothing
    /// is reset then.
    pub async fn reset(
        &self,
        filter: &ReactionFilter,
        effects: ResetEffects,
    ) -> Result<Adjusted, ResetError> {
        let items = self.resettable(filter).await?;
        EventsGone::refuse(&*self.store, &items, &self.cursors().await?).await?;
        Ok(self.reset_items(items, effects, false).await?)
    }

    /// Resets matching targets even if events are deleted: every remaining event is handled again.
    ///
    /// A projection's row is built from the remaining events, and deleted if there are none. Tables
    /// that a handler writes to are the handler's responsibility.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn reset_partial(
        &self,
        filter: &ReactionFilter,
        effects: ResetEffects,
    ) -> Result<Adjusted> {
        let items = self.resettable(filter).await?;
        self.reset_items(items, effects, true).await
    }

    pub(super) async fn resettable(&self, filter: &ReactionFilter) -> Result<Vec<Item>> {
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
                self.record_rebuilds(items, effects, partial).await?;
                let keys = items.iter().map(|item| item.item.key.as_str().to_owned()).collect();
                let filter = ItemFilter::queue(queue.as_str()).key(NamePattern::OneOf(keys));
                let adjusted =
                    self.store.adjust(filter, Adjustment::Reset { to: Mark::ZERO }).await?;
                sum = plus(sum, adjusted);
            }
        }
        Ok(sum)
    }

    /// Defers matching targets until the given time.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn defer(&self, filter: &ReactionFilter, until: When) -> Result<Adjusted> {
        self.adjust(filter, &Adjustment::Defer { until }).await
    }

    /// Sets the priority of matching targets, from -100 to 100.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the priority is out of range.
    pub async fn prioritize(&self, filter: &ReactionFilter, priority: i16) -> Result<Adjusted> {
        let priority = Priority::new(priority)?;
        self.adjust(filter, &Adjustment::Prioritize { priority }).await
    }

    /// Moves matching targets to this lane.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the lane's name is not valid.
    pub async fn move_to(
        &self,
        filter: &ReactionFilter,
        lane: impl AsRef<str>,
    ) -> Result<Adjusted> {
        let lane = LaneName::new(lane.as_ref())?;
        self.adjust(filter, &Adjustment::Move { lane }).await
    }

    /// Pauses a reaction: no process handles another target of it until it is
    /// [resumed](Self::resume). Its events are still routed, so the lag can be seen; targets that
    /// are being handled are not interrupted.
    ///
    /// Every process honors it within two seconds. Returns whether the reaction was not paused
    /// before.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the name is not valid.
    pub async fn pause(&self, reaction: impl AsRef<str>, reason: &str) -> Result<bool> {
        let subject = PauseSubject::Reaction(named(reaction.as_ref())?.as_str().to_owned());
        pauses::pause(&*self.store, subject, reason).await
    }

    /// Resumes a paused reaction, and returns whether it was paused.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the name is not valid.
    pub async fn resume(&self, reaction: impl AsRef<str>) -> Result<bool> {
        let subject = PauseSubject::Reaction(named(reaction.as_ref())?.as_str().to_owned());
        pauses::resume(&*self.store, &subject).await
    }

    /// Routes a reaction's events again: from the beginning, or from the current end.
    ///
    /// Use it for a reaction whose routing stopped because the log is not the one it knew (it was
    /// restored, or imported). Targets that are streams continue at their own versions; reset them
    /// to start over. Events that are routed again to computed targets are handled again.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the name is not valid.
    pub async fn reroute(&self, reaction: impl AsRef<str>, from: StartFrom) -> Result<Rerouted> {
        super::router::reroute(&self.store, &named(reaction.as_ref())?, from, None).await
    }

    /// Routes a reaction's events again, at most once per `operation` id.
    ///
    /// If it was done before under this id, nothing happens. The id is remembered for seven days.
    ///
    /// # Errors
    /// As [`reroute`](Self::reroute).
    pub async fn reroute_once(
        &self,
        reaction: impl AsRef<str>,
        from: StartFrom,
        operation: impl AsRef<str>,
    ) -> Result<Rerouted> {
        super::router::reroute(
            &self.store,
            &named(reaction.as_ref())?,
            from,
            Some(operation.as_ref()),
        )
        .await
    }

    /// Returns the name in this filter that does not exist, if any, to explain an empty result. A
    /// pattern is not a name.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn missing(&self, filter: &ReactionFilter) -> Result<Option<Missing>> {
        if let Some(name) = filter.reaction()
            && let Some(missing) = self.missing_reaction(name).await?
        {
            return Ok(Some(missing));
        }
        let matching = self.item_filters(&filter.in_any_state()).await?;
        if let Some(name) = filter.only_target() {
            let mut is_there = false;
            for filter in &matching {
                is_there = is_there || is_any(&*self.store, filter).await?;
            }
            if !is_there {
                return Ok(Some(Missing::Target { name: name.to_owned() }));
            }
        }
        Missing::lane(&*self.store, &matching, &filter.items()).await
    }

    /// Returns this reaction as missing if it was never registered and has no target.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn missing_reaction(&self, name: impl AsRef<str>) -> Result<Option<Missing>> {
        let name = name.as_ref();
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

    /// Translates the filter to filters of work items: one, or one for each reaction.
    ///
    /// # Errors
    /// Returns the store's error.
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

    /// Records the cursor of each item before a reset. A rebuild in progress keeps the further
    /// mark.
    async fn record_rebuilds(
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
            let before = Rebuild::read(slot)?.map_or(Mark::ZERO, |rebuild| rebuild.stored.through);
            let effects = effects == ResetEffects::Repeat;
            let through = item.at.max(before);
            let stored = StoredRebuild { through, effects, partial, skip: None };
            commit =
                commit.write(RecordWrite::put(key, ExpectedRevision::Any, RawJson::new(&stored)?));
        }
        let _recorded = self.store.commit(commit).await?;
        Ok(())
    }
}

fn rebuild_key(queue: &QueueName, key: &ItemKey) -> Result<RecordKey> {
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

pub(super) fn named(reaction: &str) -> Result<ReactionName> {
    ReactionName::new(reaction).map_err(|e| StoreError::invalid(e.to_string()))
}
