//! Events that a target handled and that are gone since: a rebuild would leave them out without a
//! word.

use std::collections::BTreeMap;
use std::fmt;

use tidelock_store::{
    Item, ItemKey, Position, Result, Store, StoreError, StreamName, StreamQuery, Version,
};

use super::links::Link;
use super::router::Cursor;
use super::{ReactionName, keys};

/// A target that cannot be rebuilt: events that it handled were cleared away, when the books of
/// their stream were closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsGone {
    /// The reaction.
    pub reaction: String,
    /// The target.
    pub target: String,
    /// A stream that feeds it; the stream of its links, if those to the events that are gone were
    /// removed.
    pub stream: StreamName,
    /// Its events up to here are gone.
    pub through: Version,
}

impl fmt::Display for EventsGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reaction, target, stream, through } = self;
        write!(
            f,
            "reaction {reaction:?}, target {target:?}: the events of stream {stream:?} up to version {through} were cleared \
             away, so a rebuild would leave them out"
        )
    }
}

/// Why nothing was reset.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// Events are gone that some target would have to handle again.
    #[error("{first}{}; to handle what is left all the same, ask for a partial reset", others(.more))]
    EventsGone {
        /// The first such target.
        first: EventsGone,
        /// How many others there are.
        more: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn others(more: &usize) -> String {
    match more {
        0 => String::new(),
        1 => " (and 1 more target)".to_owned(),
        more => format!(" (and {more} more targets)"),
    }
}

impl EventsGone {
    /// What is gone of what this target of a reaction handled.
    pub(crate) async fn find(
        store: &dyn Store,
        reaction: &ReactionName,
        cursor: &Cursor,
        target: &ItemKey,
    ) -> Result<Option<Self>> {
        let gone = match cursor.computed {
            true => linked(store, &keys::links(reaction, target)?).await?,
            false => own(store, StreamName::new(target.as_str())?, cursor.start).await?,
        };
        Ok(gone.map(|gone| Self::of(reaction, target, gone)))
    }

    /// That this is gone of what a target handled.
    pub(crate) fn of(
        reaction: &ReactionName,
        target: &ItemKey,
        (stream, through): (StreamName, Version),
    ) -> Self {
        Self { reaction: reaction.to_string(), target: target.to_string(), stream, through }
    }

    /// Refuses a reset of these items if anything of them is gone.
    pub(super) async fn refuse(
        store: &dyn Store,
        items: &[Item],
        cursors: &[(String, Cursor)],
    ) -> Result<(), ResetError> {
        let (mut first, mut more) = (None, 0);
        for item in items {
            let name = keys::reaction_of(&item.item.queue).unwrap_or_default();
            let (Some((_, cursor)), Ok(reaction)) =
                (cursors.iter().find(|(there, _)| there == name), ReactionName::new(name))
            else {
                continue;
            };
            if let Some(gone) = Self::find(store, &reaction, cursor, &item.item.key).await? {
                more += usize::from(first.is_some());
                first.get_or_insert(gone);
            }
        }
        first.map_or(Ok(()), |first| Err(ResetError::EventsGone { first, more }))
    }
}

type Gone = Option<(StreamName, Version)>;

/// Of the stream that is the target, after the place at which the reaction began.
async fn own(store: &dyn Store, stream: StreamName, start: Position) -> Result<Gone> {
    let mut query = StreamQuery::forward(&stream).limit(1);
    let page = loop {
        let page = store.read_stream(query.clone()).await?;
        match page.next {
            Some(next) if page.events.is_empty() => query = query.from(next),
            _ => break page,
        }
    };
    let Some(through) = before(page.first, page.state.version()) else { return Ok(None) };
    // What came before an event from before the beginning was never the reaction's.
    let is_older = page.events.first().is_some_and(|oldest| oldest.position <= start);
    Ok((!is_older).then_some((stream, through)))
}

/// Of the streams that links lead to. Links are only removed if they lead to nothing.
async fn linked(store: &dyn Store, links: &StreamName) -> Result<Gone> {
    let mut gone: BTreeMap<StreamName, Option<Version>> = BTreeMap::new();
    let mut query = StreamQuery::forward(links);
    loop {
        let page = store.read_stream(query.clone()).await?;
        if let Some(through) = before(page.first, page.state.version()) {
            return Ok(Some((links.clone(), through)));
        }
        for link in &page.events {
            let link: Link = link.payload.to()?;
            let stream = link.stream();
            if !gone.contains_key(stream) {
                let page = store.read_stream(StreamQuery::forward(stream).limit(1)).await?;
                gone.insert(stream.clone(), before(page.first, page.state.version()));
            }
            if let Some(through) = gone[stream].filter(|through| link.leads_to(stream, *through)) {
                return Ok(Some((stream.clone(), through)));
            }
        }
        match page.next {
            Some(next) => query = query.from(next),
            None => return Ok(None),
        }
    }
}

/// The last version before the oldest that is left of a stream at this version, if there is any.
pub(super) fn before(first: Option<Version>, version: Option<Version>) -> Option<Version> {
    match first {
        Some(first) => Version::new(first.get() - 1).ok(),
        None => version,
    }
}
