//! What a target has to handle next: events of its own stream, or those that links lead to.

use std::collections::VecDeque;

use tidelock_store::{
    Lease, Mark, Position, Result, StoreExt, StoredEvent, StreamName, StreamPage, StreamQuery,
    Version,
};

use super::ReactionWork;
use crate::reactions::gone::before;
use crate::reactions::keys;
use crate::reactions::links::Link;
use crate::reactions::rebuild::Rebuild;
use crate::reactions::recent::Recent;
use crate::reactions::route::Route;

/// Events in their order, and the mark that is reached with each.
#[derive(Debug)]
pub(super) struct Page {
    entries: VecDeque<(Mark, StoredEvent)>,
    /// Done up to here once all of them are handled: what follows the last of them is not wanted.
    pub(super) through: Mark,
    /// An event of the page that was cleared away, of those that a rebuild has to handle again.
    pub(super) gone: Option<(StreamName, Version)>,
}

impl Page {
    /// The next events of this lease's target. A rebuild reads all of them from the store: what
    /// this process remembers may be gone from there.
    pub(super) async fn read(
        reacting: &ReactionWork,
        lease: &Lease,
        rebuild: Option<&Rebuild>,
    ) -> Result<Self> {
        match reacting.reaction.route {
            Route::Own => own(reacting, lease, rebuild).await,
            Route::Computed(_) => linked(reacting, lease, rebuild).await,
        }
    }

    /// The next events, at most this many, and the mark of the last of them.
    pub(super) fn next_batch(&mut self, most: usize) -> Option<(Vec<StoredEvent>, Mark)> {
        let count = most.clamp(1, self.entries.len().max(1)).min(self.entries.len());
        let (marks, events): (Vec<Mark>, Vec<StoredEvent>) = self.entries.drain(..count).unzip();
        Some((events, marks.last().copied()?))
    }

    /// What is done once the event at this mark is: after the last event, all.
    pub(super) fn reached(&self, mark: Mark) -> Mark {
        if self.entries.is_empty() { mark.max(self.through) } else { mark }
    }

    fn new(
        lease: &Lease,
        last: Option<Mark>,
        more: bool,
        entries: VecDeque<(Mark, StoredEvent)>,
    ) -> Self {
        let through = match (last, more) {
            (Some(last), true) => last,
            (last, _) => last.map_or(lease.mark, |last| last.max(lease.mark)),
        };
        Self { entries, through, gone: None }
    }
}

async fn own(reacting: &ReactionWork, lease: &Lease, rebuild: Option<&Rebuild>) -> Result<Page> {
    let stream = StreamName::new(lease.item.key.as_str())?;
    let from = first_wanted(reacting, lease, &stream).await?;
    let Stretch { events, more, gone } = match rebuild {
        None => stretch(reacting, &stream, from, lease.mark).await?,
        Some(_) => stored(reacting, &stream, from).await?,
    };
    let last = events.last().map(|event| Mark::from(event.version));
    let wanted = events.into_iter().filter(|event| reacting.reaction.wants(event));
    let entries = wanted.map(|event| (Mark::from(event.version), event)).collect();
    let gone = gone.map(|through| (stream, through));
    Ok(Page { gone, ..Page::new(lease, last, more, entries) })
}

/// Events of a stream in a row.
struct Stretch {
    events: Vec<StoredEvent>,
    more: bool,
    /// Up to here there are none any more, though they were asked for.
    gone: Option<Version>,
}

/// Events of the stream, from what this process has just routed if that is enough.
async fn stretch(
    reacting: &ReactionWork,
    stream: &StreamName,
    from: Version,
    mark: Mark,
) -> Result<Stretch> {
    let limit = reacting.reaction.options.page;
    let recent = reacting.recent.run(stream, from, limit);
    if recent.last().is_some_and(|last| recent.len() == limit || Mark::from(last.version) >= mark) {
        return Ok(Stretch { events: recent, more: true, gone: None });
    }
    stored(reacting, stream, from).await
}

/// Events of the stream, from the store.
async fn stored(reacting: &ReactionWork, stream: &StreamName, from: Version) -> Result<Stretch> {
    let limit = reacting.reaction.options.page;
    let page =
        reacting.store.full_page(StreamQuery::forward(stream).from(from).limit(limit)).await?;
    let gone = before(page.first, page.state.version()).filter(|through| *through >= from);
    Ok(Stretch { more: page.next.is_some(), events: page.events, gone })
}

async fn first_wanted(
    reacting: &ReactionWork,
    lease: &Lease,
    stream: &StreamName,
) -> Result<Version> {
    let next = Version::new(lease.at.get() + 1)?;
    if lease.at > Mark::ZERO {
        return Ok(next);
    }
    match reacting.start().await? {
        Position::START => Ok(next),
        start => first_after(reacting, stream, start).await,
    }
}

/// The first version after a position. Looked for from the end, so that it costs as much as there
/// is to handle, and not as much as there was before.
async fn first_after(
    reacting: &ReactionWork,
    stream: &StreamName,
    start: Position,
) -> Result<Version> {
    let mut first = None;
    let mut query = StreamQuery::backward(stream).limit(reacting.reaction.options.page);
    loop {
        let StreamPage { events, next, state, .. } =
            reacting.store.read_stream(query.clone()).await?;
        let newer = events.iter().take_while(|event| event.position > start);
        first = newer.last().map(|event| event.version).or(first);
        match next {
            Some(next) if events.last().is_some_and(|event| event.position > start) => {
                query = query.from(next);
            }
            _ => {
                return Ok(
                    first.unwrap_or_else(|| state.version().map_or(Version::FIRST, |v| v.plus(1)))
                );
            }
        }
    }
}

async fn linked(reacting: &ReactionWork, lease: &Lease, rebuild: Option<&Rebuild>) -> Result<Page> {
    let stream = keys::links(&reacting.reaction.name, &lease.item.key)?;
    let from = Version::new(lease.at.get() + 1)?;
    let limit = reacting.reaction.options.page;
    let page =
        reacting.store.full_page(StreamQuery::forward(&stream).from(from).limit(limit)).await?;
    let last = page.events.last().map(|link| Mark::from(link.version));
    let nothing = Recent::default();
    let recent = if rebuild.is_some() { &nothing } else { &*reacting.recent };
    let events = Link::follow(&*reacting.store, recent, &page.events).await?;
    let gone = match rebuild {
        Some(rebuild) => missing(rebuild, &page.events, &events)?,
        None => None,
    };
    let marks = page.events.iter().map(|link| Mark::from(link.version));
    let entries = marks.zip(events).filter_map(|(mark, event)| Some((mark, event?))).collect();
    Ok(Page { gone, ..Page::new(lease, last, page.next.is_some(), entries) })
}

/// Where the last of these links leads that a rebuild has to follow and cannot.
fn missing(
    rebuild: &Rebuild,
    links: &[StoredEvent],
    events: &[Option<StoredEvent>],
) -> Result<Option<(StreamName, Version)>> {
    let mut followed = links
        .iter()
        .zip(events)
        .filter(|(link, _)| Mark::from(link.version) <= rebuild.told.through);
    let dead = followed.rfind(|(_, event)| event.is_none());
    dead.map(|(link, _)| Ok(link.payload.to::<Link>()?.into_parts())).transpose()
}
