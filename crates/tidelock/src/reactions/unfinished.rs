//! Pending work: what reactions have left to do with the events of one stream.
//!
//! A closing checks it before it deletes events. It reads how far each reaction's events are
//! routed, and then the targets with pending events: the stream itself, or, where targets are
//! computed, those with a link to it.

use std::collections::BTreeSet;
use std::fmt;

use tidelock_store::{
    Item, ItemFilter, ItemKey, ItemQuery, ItemRef, NamePattern, Position, RecordQuery, Result,
    Store, StoreExt, StreamName, StreamQuery, Version,
};

use super::links::Link;
use super::projections::{Generations, Rebuilt};
use super::router::Cursor;
use super::{ReactionName, keys};

/// A reaction that has not handled all events of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The reaction.
    pub reaction: String,
    /// The target with pending events; `None` if not all events are routed yet.
    pub target: Option<String>,
    /// The error, if the target is blocked.
    pub blocked: Option<String>,
    /// The cursor: a mark of the target, or a feed position if not all events are routed yet.
    pub at: u64,
    /// An upper bound of the pending events.
    pub behind: u64,
    /// Whether it made progress during the wait.
    pub advanced: bool,
    /// Whether it is a projection whose rebuild has to handle them again.
    pub rebuilding: bool,
}

impl Unfinished {
    /// Whether it cannot finish before an operator acts.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Finds the first reaction that has not handled this stream's events up to a version, except
    /// the ignored ones.
    pub(crate) async fn find(
        store: &dyn Store,
        stream: &StreamName,
        through: Version,
        ignored: &BTreeSet<String>,
    ) -> Result<Option<Self>> {
        let Some(last) = store.event(stream, through).await? else { return Ok(None) };
        let events = StreamEvents { store, stream, through, position: last.position };
        let mut routes = store.rows(RecordQuery::prefix(keys::route_records()));
        while let Some(route) = routes.next().await? {
            let name =
                keys::routed_reaction(route.key.as_str()).and_then(|n| ReactionName::new(n).ok());
            let Some(name) = name.filter(|name| !ignored.contains(name.as_str())) else { continue };
            let cursor = route.value.to()?;
            if let Some(unfinished) = events.of(&name, &cursor, None).await? {
                return Ok(Some(unfinished));
            }
            if let Some(unfinished) = events.rebuilding(&name, &cursor).await? {
                return Ok(Some(unfinished));
            }
        }
        Ok(None)
    }

    /// Compares with an earlier result: any difference is progress.
    pub(crate) fn since(self, earlier: &Self) -> Self {
        let place = |found: &Self| (found.reaction.clone(), found.target.clone(), found.at);
        Self { advanced: place(&self) != place(earlier), ..self }
    }

    pub(super) fn routing(reaction: &ReactionName, routed: Position, last: Position) -> Self {
        Self {
            reaction: reaction.to_string(),
            target: None,
            blocked: None,
            at: routed.get(),
            behind: last.get().saturating_sub(routed.get()),
            advanced: false,
            rebuilding: false,
        }
    }

    fn at(reaction: &ReactionName, item: &Item) -> Self {
        let blocked = item.blocked.then(|| item.error.clone().unwrap_or_default());
        let lag = item.mark.get().saturating_sub(item.at.get());
        Self {
            reaction: reaction.to_string(),
            target: Some(item.item.key.to_string()),
            blocked,
            at: item.at.get(),
            behind: if keys::is_unrouted(&item.item.key) { lag.min(1) } else { lag },
            advanced: false,
            rebuilding: false,
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reaction, target, blocked, behind, .. } = self;
        let events = if *behind == 1 { "event" } else { "events" };
        let hint = match self.advanced {
            true => ", but it makes progress; allow more time",
            false => "; is a process running it?",
        };
        match (target, blocked) {
            _ if self.rebuilding => write!(
                f,
                "projection {reaction:?} is being rebuilt, and has {behind} {events} of this stream to handle again; \
                 allow more time, or cancel the rebuild"
            ),
            (None, _) => write!(
                f,
                "reaction {reaction:?} has not routed all of its events yet: it is up to {behind} {events} behind{hint}"
            ),
            (Some(target), None) => write!(
                f,
                "reaction {reaction:?} is not done with target {target:?}: it is {behind} {events} behind{hint}"
            ),
            (Some(target), Some(error)) => {
                write!(
                    f,
                    "reaction {reaction:?} is blocked at target {target:?}: {error}; fix the cause and unblock it"
                )
            }
        }
    }
}

/// The events in question.
pub(super) struct StreamEvents<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) stream: &'a StreamName,
    pub(super) through: Version,
    /// The position of the last event.
    pub(super) position: Position,
}

impl StreamEvents<'_> {
    /// What the reaction has left to do with them; of computed targets, at this one if one is
    /// named.
    pub(super) async fn of(
        &self,
        reaction: &ReactionName,
        cursor: &Cursor,
        target: Option<&ItemKey>,
    ) -> Result<Option<Unfinished>> {
        if !self.stream.as_str().starts_with(&cursor.streams) || cursor.start >= self.position {
            return Ok(None);
        }
        if cursor.position < self.position {
            return Ok(Some(Unfinished::routing(reaction, cursor.position, self.position)));
        }
        let item = match (cursor.computed, target) {
            (true, Some(target)) => self.linked_at(reaction, target).await?,
            (true, None) => self.linked(reaction).await?,
            (false, _) => self.own(reaction).await?,
        };
        Ok(item.map(|item| Unfinished::at(reaction, &item)))
    }

    /// What the rebuild of this projection has left to do with them. Where targets are computed,
    /// nothing is known of single events: all of them are left until the rebuild is complete.
    async fn rebuilding(
        &self,
        reaction: &ReactionName,
        cursor: &Cursor,
    ) -> Result<Option<Unfinished>> {
        if !self.stream.as_str().starts_with(&cursor.streams) || cursor.start >= self.position {
            return Ok(None);
        }
        let Some(generations) = Generations::find(self.store, reaction).await? else {
            return Ok(None);
        };
        let Some(building) = generations.in_progress() else { return Ok(None) };
        let at = match cursor.computed {
            true => 0,
            false => {
                let target = ItemKey::new(self.stream.as_str())?;
                let rebuilt = keys::rebuilt(reaction, building.generation, &target)?;
                let there = Rebuilt::read(&self.store.get_one(&rebuilt).await?)?;
                there.map_or(0, |there| there.at.get())
            }
        };
        let behind = self.through.get().saturating_sub(at);
        Ok((behind > 0).then(|| Unfinished {
            reaction: reaction.to_string(),
            target: (!cursor.computed).then(|| self.stream.to_string()),
            blocked: None,
            at,
            behind,
            advanced: false,
            rebuilding: true,
        }))
    }

    /// The target of the stream itself, if it has not handled these events.
    async fn own(&self, reaction: &ReactionName) -> Result<Option<Item>> {
        let key = ItemKey::new(self.stream.as_str())?;
        let item = self.store.item(&ItemRef::new(&keys::queue(reaction), &key)).await?;
        Ok(item.filter(|item| item.at < item.mark && item.at.get() < self.through.get()))
    }

    /// This target, if it has an unhandled link to these events, or else the last of them, if its
    /// route failed.
    async fn linked_at(&self, reaction: &ReactionName, target: &ItemKey) -> Result<Option<Item>> {
        for key in [target, &keys::unrouted(self.position)] {
            let item = self.store.item(&ItemRef::new(&keys::queue(reaction), key)).await?;
            if let Some(item) = item.filter(|item| item.at < item.mark)
                && self.is_pending(reaction, &item).await?
            {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// The first target with an unhandled link to these events, or an unrouted event among them.
    async fn linked(&self, reaction: &ReactionName) -> Result<Option<Item>> {
        let filter = ItemFilter {
            queue: NamePattern::is(keys::queue(reaction).as_str()),
            ..ItemFilter::default()
        };
        let mut items = self.store.rows(ItemQuery::new(filter));
        while let Some(item) = items.next().await? {
            if item.at < item.mark && self.is_pending(reaction, &item).await? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    async fn is_pending(&self, reaction: &ReactionName, item: &Item) -> Result<bool> {
        match keys::unrouted_position(&item.item.key) {
            Some(position) => self.contains(position).await,
            None => self.has_link(reaction, item).await,
        }
    }

    async fn contains(&self, position: Position) -> Result<bool> {
        let event = self.store.event_at(position).await?;
        Ok(event.is_some_and(|e| e.stream == *self.stream && e.version <= self.through))
    }

    async fn has_link(&self, reaction: &ReactionName, item: &Item) -> Result<bool> {
        let links = keys::links(reaction, &item.item.key)?;
        let mut links =
            self.store.rows(StreamQuery::forward(&links).from(Version::new(item.at.get() + 1)?));
        while let Some(link) =
            links.next().await?.filter(|link| link.version.get() <= item.mark.get())
        {
            if link.payload.to::<Link>()?.leads_to(self.stream, self.through) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
