//! The next page of a target: events of its own stream, or those that its links point to.

use std::collections::VecDeque;

use tidelock_store::{
    Lease, Mark, Position, Result, StoreExt, StoredEvent, StreamName, StreamPage, StreamQuery,
    Version,
};

use super::ReactionWork;
use crate::reactions::gone::before;
use crate::reactions::keys;
use crate::reactions::links::Link;
use crate::reactions::rebuild::StoredRebuild;
use crate::reactions::recent::Recent;
use crate::reactions::route::Route;

/// Events in order, each with the mark that it reaches.
#[derive(Debug)]
pub(super) struct Page {
    entries: VecDeque<(Mark, StoredEvent)>,
    /// The mark reached when all of them are handled: later events up to it are not relevant.
    pub(super) through: Mark,
    /// A deleted event of the page that a rebuild has to handle again.
    pub(super) gone: Option<(StreamName, Version)>,
}

impl Page {
    /// Reads the next events of this lease's target. A rebuild bypasses the cache, which may hold
    /// deleted events.
    pub(super) async fn read(
        work: &ReactionWork,
        lease: &Lease,
        rebuild: Option<&StoredRebuild>,
    ) -> Result<Self> {
        match work.reaction.route {
            Route::Own => own(work, lease, rebuild).await,
            Route::Computed(_) => linked(work, lease, rebuild).await,
        }
    }

    /// Takes the next events, at most this many, and the mark of the last of them.
    pub(super) fn next_batch(&mut self, most: usize) -> Option<(Vec<StoredEvent>, Mark)> {
        let count = most.clamp(1, self.entries.len().max(1)).min(self.entries.len());
        let (marks, events): (Vec<Mark>, Vec<StoredEvent>) = self.entries.drain(..count).unzip();
        Some((events, marks.last().copied()?))
    }

    /// Leaves out what is after this mark.
    pub(super) fn up_to(mut self, mark: Mark) -> Self {
        self.entries.retain(|(at, _)| *at <= mark);
        self.through = self.through.min(mark);
        self
    }

    /// The mark reached with the event at `mark`: after the last event, the whole page.
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

async fn own(work: &ReactionWork, lease: &Lease, rebuild: Option<&StoredRebuild>) -> Result<Page> {
    let stream = StreamName::new(lease.item.key.as_str())?;
    let from = first_wanted(work, lease, &stream).await?;
    let Segment { events, more, gone } = match rebuild {
        None => segment(work, &stream, from, lease.mark).await?,
        Some(_) => stored(work, &stream, from).await?,
    };
    let last = events.last().map(|event| Mark::from(event.version));
    let wanted = events.into_iter().filter(|event| work.reaction.wants(event));
    let entries = wanted.map(|event| (Mark::from(event.version), event)).collect();
    let gone = gone.map(|through| (stream, through));
    Ok(Page { gone, ..Page::new(lease, last, more, entries) })
}

/// Consecutive events of a stream.
struct Segment {
    events: Vec<StoredEvent>,
    more: bool,
    /// Requested events up to this version are deleted.
    gone: Option<Version>,
}

/// Events of the stream, from the cache if it has enough.
async fn segment(
    work: &ReactionWork,
    stream: &StreamName,
    from: Version,
    mark: Mark,
) -> Result<Segment> {
    let limit = work.reaction.options.page;
    let recent = work.recent.run(stream, from, limit);
    if recent.last().is_some_and(|last| recent.len() == limit || Mark::from(last.version) >= mark) {
        return Ok(Segment { events: recent, more: true, gone: None });
    }
    stored(work, stream, from).await
}

/// Events of the stream, from the store.
async fn stored(work: &ReactionWork, stream: &StreamName, from: Version) -> Result<Segment> {
    let limit = work.reaction.options.page;
    let page = work.store.full_page(StreamQuery::forward(stream).from(from).limit(limit)).await?;
    let gone = before(page.first, page.state.version()).filter(|through| *through >= from);
    Ok(Segment { more: page.next.is_some(), events: page.events, gone })
}

async fn first_wanted(work: &ReactionWork, lease: &Lease, stream: &StreamName) -> Result<Version> {
    let next = Version::new(lease.at.get() + 1)?;
    if lease.at > Mark::ZERO {
        return Ok(next);
    }
    match work.start().await? {
        Position::START => Ok(next),
        start => first_after(work, stream, start).await,
    }
}

/// The first version after a position. Searched from the end, so that the cost depends on the
/// pending events and not on the history.
async fn first_after(work: &ReactionWork, stream: &StreamName, start: Position) -> Result<Version> {
    let mut first = None;
    let mut query = StreamQuery::backward(stream).limit(work.reaction.options.page);
    loop {
        let StreamPage { events, next, state, .. } = work.store.read_stream(query.clone()).await?;
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

async fn linked(
    work: &ReactionWork,
    lease: &Lease,
    rebuild: Option<&StoredRebuild>,
) -> Result<Page> {
    let stream = keys::links(&work.reaction.name, &lease.item.key)?;
    let from = Version::new(lease.at.get() + 1)?;
    let limit = work.reaction.options.page;
    let page = work.store.full_page(StreamQuery::forward(&stream).from(from).limit(limit)).await?;
    let last = page.events.last().map(|link| Mark::from(link.version));
    let nothing = Recent::default();
    let recent = if rebuild.is_some() { &nothing } else { &*work.recent };
    let events = Link::follow(&*work.store, recent, &page.events).await?;
    let gone = match rebuild {
        Some(rebuild) => missing(rebuild, &page.events, &events)?,
        None => None,
    };
    let marks = page.events.iter().map(|link| Mark::from(link.version));
    let entries = marks.zip(events).filter_map(|(mark, event)| Some((mark, event?))).collect();
    Ok(Page { gone, ..Page::new(lease, last, page.next.is_some(), entries) })
}

/// The last event that a rebuild has to handle and that is deleted, by its link.
fn missing(
    rebuild: &StoredRebuild,
    links: &[StoredEvent],
    events: &[Option<StoredEvent>],
) -> Result<Option<(StreamName, Version)>> {
    let mut followed =
        links.iter().zip(events).filter(|(link, _)| Mark::from(link.version) <= rebuild.through);
    let dead = followed.rfind(|(_, event)| event.is_none());
    dead.map(|(link, _)| Ok(link.payload.to::<Link>()?.into_parts())).transpose()
}
