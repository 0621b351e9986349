//! What reactions have left to do with the events of one stream.
//!
//! Asked before those events go away. It looks at how far each reaction's events were routed, and
//! then at the targets that have something to do: that of the stream itself, or, where targets are
//! computed, those with a link to it.

use std::collections::BTreeSet;
use std::fmt;

use tidelock_store::{
    Item, ItemFilter, ItemQuery, ItemRef, NamePattern, Position, RecordQuery, Result, Store,
    StoreExt, StreamName, StreamQuery, Version,
};

use super::links::Link;
use super::router::Cursor;
use super::{ReactionName, keys};

/// A reaction that is not done with a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The reaction.
    pub reaction: String,
    /// The target that has something to do; none if not all events were routed yet.
    pub target: Option<String>,
    /// What went wrong there, if it is blocked.
    pub blocked: Option<String>,
    /// Done up to here: a mark of the target, or a position of the feed if not all events were
    /// routed yet.
    pub at: u64,
    /// How many events it has left at most.
    pub behind: u64,
    /// Whether it came on while it was waited for.
    pub advanced: bool,
}

impl Unfinished {
    /// Whether it will not be done before somebody does something about it.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// The first reaction that is not done with this stream's events up to a version, those apart
    /// whose names are given.
    pub(crate) async fn find(
        store: &dyn Store,
        stream: &StreamName,
        through: Version,
        ignored: &BTreeSet<String>,
    ) -> Result<Option<Self>> {
        let Some(last) = store.event(stream, through).await? else { return Ok(None) };
        let sought = Sought { store, stream, through, position: last.position };
        let mut routes = store.rows(RecordQuery::prefix(keys::route_records()));
        while let Some(route) = routes.next().await? {
            let name =
                keys::routed_reaction(route.key.as_str()).and_then(|n| ReactionName::new(n).ok());
            let Some(name) = name.filter(|name| !ignored.contains(name.as_str())) else { continue };
            if let Some(unfinished) = sought.of(&name, &route.value.to()?).await? {
                return Ok(Some(unfinished));
            }
        }
        Ok(None)
    }

    /// The same, compared with what was found at an earlier look: where that is not so any more,
    /// something was done.
    pub(crate) fn since(self, earlier: &Self) -> Self {
        let place = |found: &Self| (found.reaction.clone(), found.target.clone(), found.at);
        Self { advanced: place(&self) != place(earlier), ..self }
    }

    fn routing(reaction: &ReactionName, routed: Position, last: Position) -> Self {
        Self {
            reaction: reaction.to_string(),
            target: None,
            blocked: None,
            at: routed.get(),
            behind: last.get().saturating_sub(routed.get()),
            advanced: false,
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
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reaction, target, blocked, behind, .. } = self;
        let events = if *behind == 1 { "event" } else { "events" };
        let hint = match self.advanced {
            true => ", but it makes progress; have more patience",
            false => "; is anybody running it?",
        };
        match (target, blocked) {
            (None, _) => write!(
                f,
                "reaction {reaction:?} has not got to all of its events yet: it is up to {behind} {events} behind{hint}"
            ),
            (Some(target), None) => write!(
                f,
                "reaction {reaction:?} is not done with target {target:?}: it is {behind} {events} behind{hint}"
            ),
            (Some(target), Some(error)) => {
                write!(
                    f,
                    "reaction {reaction:?} is blocked at target {target:?}: {error}; mend it and unblock it"
                )
            }
        }?;
        f.write_str(" (or close the books ignoring it)")
    }
}

/// The events in question.
struct Sought<'a> {
    store: &'a dyn Store,
    stream: &'a StreamName,
    through: Version,
    /// Of the last of them.
    position: Position,
}

impl Sought<'_> {
    async fn of(&self, reaction: &ReactionName, cursor: &Cursor) -> Result<Option<Unfinished>> {
        if !self.stream.as_str().starts_with(&cursor.streams) || cursor.start >= self.position {
            return Ok(None);
        }
        if cursor.position < self.position {
            return Ok(Some(Unfinished::routing(reaction, cursor.position, self.position)));
        }
        let item = match cursor.computed {
            true => self.linked(reaction).await?,
            false => self.own(reaction).await?,
        };
        Ok(item.map(|item| Unfinished::at(reaction, &item)))
    }

    /// The target of the stream itself, if it has something to do with these events.
    async fn own(&self, reaction: &ReactionName) -> Result<Option<Item>> {
        let key = tidelock_store::ItemKey::new(self.stream.as_str())?;
        let item = self.store.item(&ItemRef::new(&keys::queue(reaction), &key)).await?;
        Ok(item.filter(|item| item.at < item.mark && item.at.get() < self.through.get()))
    }

    /// The first target with a link to these events that it has not followed yet, or an event that
    /// has no target yet.
    async fn linked(&self, reaction: &ReactionName) -> Result<Option<Item>> {
        let filter = ItemFilter {
            queue: NamePattern::is(keys::queue(reaction).as_str()),
            ..ItemFilter::default()
        };
        let mut items = self.store.rows(ItemQuery::new(filter));
        while let Some(item) = items.next().await? {
            if item.at < item.mark && self.waits_at(reaction, &item).await? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    async fn waits_at(&self, reaction: &ReactionName, item: &Item) -> Result<bool> {
        match keys::unrouted_position(&item.item.key) {
            Some(position) => self.is_one_of_them(position).await,
            None => self.has_link(reaction, item).await,
        }
    }

    async fn is_one_of_them(&self, position: Position) -> Result<bool> {
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
