//! Detection of deleted events: a rebuild without them would be silently incomplete.

use std::collections::BTreeMap;
use std::fmt;

use tidelock_store::{
    Item, ItemKey, Position, Result, Store, StoreError, StreamName, StreamQuery, Version,
};

use super::links::Link;
use super::router::Cursor;
use super::{ReactionName, keys};

/// A target that cannot be rebuilt: events that it handled were deleted by a closing of their
/// stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsGone {
    /// The reaction.
    pub reaction: String,
    /// The target.
    pub target: String,
    /// A stream that feeds the target; or the target's link stream, if links to the deleted events
    /// were removed.
    pub stream: StreamName,
    /// Events up to this version are deleted.
    pub through: Version,
}

impl fmt::Display for EventsGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reaction, target, stream, through } = self;
        write!(
            f,
            "reaction {reaction:?}, target {target:?}: the events of stream {stream:?} up to version {through} were deleted, \
             so a rebuild would leave them out"
        )
    }
}

/// Why a reset was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// A target would have to handle events that are deleted.
    #[error("{first}{}; to handle the remaining events anyway, request a partial reset", others(.more))]
    EventsGone {
        /// The first such target.
        first: EventsGone,
        /// The number of further targets.
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
    /// Finds deleted events among those that this target handled.
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

    /// Describes the deleted events of a target.
    pub(crate) fn of(
        reaction: &ReactionName,
        target: &ItemKey,
        (stream, through): (StreamName, Version),
    ) -> Self {
        Self { reaction: reaction.to_string(), target: target.to_string(), stream, through }
    }

    /// Refuses a reset of these items if events of any of them are deleted.
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

/// Checks the stream that is the target, after the position at which the reaction began.
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
    // An event from before the reaction's start is older than everything that the reaction handled.
    let is_older = page.events.first().is_some_and(|oldest| oldest.position <= start);
    Ok((!is_older).then_some((stream, through)))
}

/// Checks the streams that links point to. Links are only removed when their events are deleted.
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

/// The last version before the oldest remaining one, or all versions if none remains.
pub(super) fn before(first: Option<Version>, version: Option<Version>) -> Option<Version> {
    match first {
        Some(first) => Version::new(first.get() - 1).ok(),
        None => version,
    }
}
