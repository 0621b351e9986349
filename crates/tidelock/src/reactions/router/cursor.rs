//! Routing cursors: how far a reaction's events are routed, and where it began.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Adjustment, Commit, ExpectedRevision, ExpectedVersion, FeedQuery, ItemFilter, Mark,
    NamePattern, NewEvent, Position, RawJson, RecordKey, RecordWrite, Result, Revision, Store,
    StoreError, StoreErrorKind, StoreExt, StoredEvent, Timestamp, Wake, When, limits,
};

use crate::reactions::ReactionName;
use crate::reactions::keys;
use crate::reactions::options::StartFrom;
use crate::reactions::reaction::Reaction;
use crate::reactions::route::Route;

/// The content of a route record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    /// Events up to this position are routed.
    pub(crate) position: Position,
    /// Events up to this position are not the reaction's.
    pub(crate) start: Position,
    /// Whether targets are computed.
    pub(crate) computed: bool,
    /// The prefix of the streams that the reaction follows.
    pub(crate) streams: String,
    /// The record's revision.
    #[serde(skip)]
    pub(crate) revision: Option<Revision>,
}

impl Cursor {
    /// The write of this cursor to its record.
    pub(crate) fn write(
        &self,
        reaction: &ReactionName,
        expected: ExpectedRevision,
    ) -> Result<RecordWrite> {
        Ok(RecordWrite::put(&keys::route_record(reaction), expected, RawJson::new(self)?))
    }

    /// The record's expected revision when this cursor is written.
    pub(crate) fn expected(&self) -> ExpectedRevision {
        self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision)
    }
}

/// Reads the cursor.
pub(crate) async fn cursor_of(store: &dyn Store, reaction: &ReactionName) -> Result<Cursor> {
    find_cursor(store, reaction).await?.ok_or_else(|| {
        StoreError::corrupt(format!(
            "reaction {reaction}: its route record was deleted; register it again"
        ))
    })
}

/// Reads the cursor; `None` if the reaction was never registered.
pub(crate) async fn find_cursor(
    store: &dyn Store,
    reaction: &ReactionName,
) -> Result<Option<Cursor>> {
    let Some(record) = store.get_one(&keys::route_record(reaction)).await?.into_live() else {
        return Ok(None);
    };
    Ok(Some(Cursor { revision: Some(record.revision), ..record.value.to()? }))
}

/// Whether events wait to be routed to this reaction, or it is not registered yet. A blocked route
/// waits for an operator.
pub(crate) async fn is_behind(store: &dyn Store, reaction: &Reaction) -> Result<bool> {
    let Some(cursor) = find_cursor(store, &reaction.name).await? else { return Ok(true) };
    let item = store.item(&keys::route_item(&reaction.name)).await?;
    if item.is_some_and(|item| item.blocked) {
        return Ok(false);
    }
    let mut events = store.rows(FeedQuery::after(cursor.position));
    while let Some(event) = events.next().await? {
        if reaction.wants(&event) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the leases on all routes: the process that holds them is known to be dead.
pub(crate) async fn free_routes(store: &dyn Store) -> Result<()> {
    let queue = NamePattern::like(keys::route_queues());
    let held = ItemFilter { queue, ..ItemFilter::default() }.held(true);
    store.adjust(held, Adjustment::Reset { to: Mark::ZERO }).await.map(drop)
}

/// Creates the reaction's route, if it has none. Where the reaction starts is decided here, once.
pub(crate) async fn register(store: &Arc<dyn Store>, reaction: &Reaction) -> Result<()> {
    let item = keys::route_item(&reaction.name);
    // Never acknowledged, so it is always due.
    let wake = Wake::to_mark(item, Mark::new(1)?);
    let slot = store.get_one(&keys::route_record(&reaction.name)).await?;
    if slot.live().is_some() {
        let _woken = store.commit(Commit::new().wake(wake)).await?;
        return Ok(());
    }
    let start = position(store, &reaction.name, reaction.options.start).await?;
    let computed = matches!(reaction.route, Route::Computed(_));
    let cursor = Cursor {
        position: start,
        start,
        computed,
        streams: reaction.streams.clone(),
        revision: None,
    };
    let write = cursor.write(&reaction.name, ExpectedRevision::Absent)?;
    // A conflict means that another process has just registered it.
    let _registered = store.commit(Commit::new().write(write).wake(wake)).await?;
    Ok(())
}

/// The outcome of rerouting a reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the events may not have been rerouted"]
pub enum Rerouted {
    /// Its events are routed again.
    Done,
    /// No such reaction was ever registered. Nothing was written.
    Unregistered,
    /// The route moved during every attempt. A retry may succeed.
    Contended,
}

/// Attempts while the route moves.
const ATTEMPTS: usize = 16;

/// Moves the cursor and unblocks the route.
pub(crate) async fn reroute(
    store: &Arc<dyn Store>,
    reaction: &ReactionName,
    from: StartFrom,
    operation: Option<&str>,
) -> Result<Rerouted> {
    // Checked first, because finding "now" appends an event, which must not exist for an unknown
    // reaction.
    if find_cursor(&**store, reaction).await?.is_none() {
        return Ok(Rerouted::Unregistered);
    }
    let note = operation.map(|operation| keys::rerouted(reaction, operation)).transpose()?;
    let position = match done(store, note.as_ref()).await? {
        // An earlier attempt may have died before it handed the route over.
        true => return hand_over(store, reaction).await,
        false => position(store, reaction, from).await?,
    };
    for _ in 0..ATTEMPTS {
        let before = cursor_of(&**store, reaction).await?;
        let cursor = Cursor { position, start: before.start.min(position), ..before.clone() };
        let write = cursor.write(reaction, before.expected())?;
        let commit = Commit::new().write(write);
        let commit =
            note.iter().try_fold(commit, |commit, note| Ok(commit.write(done_marker(note)?)))?;
        if store.commit(commit).await?.committed().is_ok() || done(store, note.as_ref()).await? {
            return hand_over(store, reaction).await;
        }
    }
    Ok(Rerouted::Contended)
}

/// Whether the operation was done before.
async fn done(store: &Arc<dyn Store>, note: Option<&RecordKey>) -> Result<bool> {
    Ok(match note {
        Some(note) => store.get_one(note).await?.live().is_some(),
        None => false,
    })
}

/// Records that the operation is done, in the same commit.
fn done_marker(note: &RecordKey) -> Result<RecordWrite> {
    let write = RecordWrite::put(note, ExpectedRevision::Absent, RawJson::new(&())?);
    Ok(write.expiring(When::In(limits::COMMIT_MEMORY)))
}

/// Revokes the route's lease, so that the next holder reads the new cursor.
async fn hand_over(store: &Arc<dyn Store>, reaction: &ReactionName) -> Result<Rerouted> {
    let item = keys::route_item(reaction);
    let filter = ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str()));
    store.adjust(filter, Adjustment::Reset { to: Mark::ZERO }).await?;
    Ok(Rerouted::Done)
}

async fn position(
    store: &Arc<dyn Store>,
    reaction: &ReactionName,
    from: StartFrom,
) -> Result<Position> {
    match from {
        StartFrom::Beginning => Ok(Position::START),
        StartFrom::Now => now(store, reaction).await,
        // The read refuses a position that the store has not given out.
        StartFrom::After(position) => {
            store.read_feed(FeedQuery::after(position).limit(1)).await.map(|_| position)
        }
        StartFrom::Since(moment) => before(&**store, moment).await,
    }
}

/// A position with only older events up to it, and behind it an event of this time or later: found
/// by bisecting the feed, which is ordered by time but for concurrent commits.
async fn before(store: &dyn Store, moment: Timestamp) -> Result<Position> {
    let (mut low, mut high) = (Position::START, store.feed_end().await?);
    while low < high {
        let (middle, next) = after_the_middle(store, low, high).await?;
        match next {
            Some(event) if event.recorded_at < moment => low = event.position,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The next event after the middle of two positions, or after one before it: what an epoch left out
/// was never given out, and is not read from.
async fn after_the_middle(
    store: &dyn Store,
    low: Position,
    high: Position,
) -> Result<(Position, Option<StoredEvent>)> {
    let mut half = (high.get() - low.get()) / 2;
    loop {
        let middle = Position::new(low.get() + half)?;
        match store.rows(FeedQuery::after(middle).limit(1)).next().await {
            Err(error) if error.kind() == StoreErrorKind::Rewound && half > 0 => half /= 2,
            next => return Ok((middle, next?)),
        }
    }
}

/// Finds the end of the feed by appending to it.
async fn now(store: &Arc<dyn Store>, reaction: &ReactionName) -> Result<Position> {
    let event = NewEvent::of(keys::REGISTERED, &serde_json::json!({}))?;
    let outcome =
        store.append(&keys::registrations(reaction), ExpectedVersion::Any, vec![event]).await?;
    let committed = outcome.committed().map_err(|e| StoreError::corrupt(e.to_string()))?;
    let positions = committed.appends.first().and_then(|appended| appended.positions);
    positions
        .map(|(_, last)| last)
        .ok_or_else(|| StoreError::corrupt("an append that has no position"))
}
