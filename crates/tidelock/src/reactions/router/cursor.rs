//! How far a reaction's events were routed, and where it began.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Adjustment, Commit, ExpectedRevision, ExpectedVersion, ItemFilter, Mark, NamePattern, NewEvent,
    Position, RawJson, RecordKey, RecordWrite, Result, Revision, Store, StoreError, StoreExt, Wake,
    When, limits,
};

use crate::reactions::ReactionName;
use crate::reactions::keys;
use crate::reactions::options::StartFrom;
use crate::reactions::reaction::Reaction;
use crate::reactions::route::Route;

/// What is in a route record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    /// Routed up to here.
    pub(crate) position: Position,
    /// Events up to here are not the reaction's.
    pub(crate) start: Position,
    /// Whether targets are computed.
    pub(crate) computed: bool,
    /// What the names of the streams begin with that the reaction follows.
    pub(crate) streams: String,
    /// The record's revision.
    #[serde(skip)]
    pub(crate) revision: Option<Revision>,
}

impl Cursor {
    /// Puts it into its record.
    pub(crate) fn write(
        &self,
        reaction: &ReactionName,
        expected: ExpectedRevision,
    ) -> Result<RecordWrite> {
        Ok(RecordWrite::put(&keys::route_record(reaction), expected, RawJson::new(self)?))
    }

    /// What the record must be like for this to be the next cursor.
    pub(crate) fn expected(&self) -> ExpectedRevision {
        self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision)
    }
}

/// The cursor in the store.
pub(crate) async fn cursor_of(store: &dyn Store, reaction: &ReactionName) -> Result<Cursor> {
    find(store, reaction).await?.ok_or_else(|| {
        StoreError::corrupt(format!(
            "reaction {reaction}: its route record was deleted; register it anew"
        ))
    })
}

/// The cursor in the store; nothing, if the reaction was never registered.
async fn find(store: &dyn Store, reaction: &ReactionName) -> Result<Option<Cursor>> {
    let Some(record) = store.get_one(&keys::route_record(reaction)).await?.into_live() else {
        return Ok(None);
    };
    Ok(Some(Cursor { revision: Some(record.revision), ..record.value.to()? }))
}

/// Makes sure that the reaction has a route. Where it begins is decided when that is made, once and
/// for all.
pub(crate) async fn register(store: &Arc<dyn Store>, reaction: &Reaction) -> Result<()> {
    let item = keys::route_item(&reaction.name);
    // Never acked, so it is always due for whoever may take it.
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
    // A conflict is as good: somebody else has just registered it.
    let _registered = store.commit(Commit::new().write(write).wake(wake)).await?;
    Ok(())
}

/// What came of having a reaction's events routed anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "nothing is routed anew unless it says so"]
pub enum Rerouted {
    /// They are, from there on.
    Anew,
    /// Nobody ever registered such a reaction. Nothing was written.
    Unregistered,
    /// Its route went on each time that this was tried. The same again may do it.
    Overtaken,
}

/// How often it is tried while the route goes on.
const ATTEMPTS: usize = 16;

/// Has the reaction routed anew from there, and its route go on.
pub(crate) async fn reroute(
    store: &Arc<dyn Store>,
    reaction: &ReactionName,
    from: StartFrom,
    operation: Option<&str>,
) -> Result<Rerouted> {
    // Looked for first: where "now" is, is found by an event that nobody should find of a reaction
    // that there is not.
    if find(&**store, reaction).await?.is_none() {
        return Ok(Rerouted::Unregistered);
    }
    let note = operation.map(|operation| keys::rerouted(reaction, operation)).transpose()?;
    let position = match done(store, note.as_ref()).await? {
        // Whoever did it may have died before the route was given on.
        true => return given_on(store, reaction).await,
        false => position(store, reaction, from).await?,
    };
    for _ in 0..ATTEMPTS {
        let before = cursor_of(&**store, reaction).await?;
        let cursor = Cursor { position, start: before.start.min(position), ..before.clone() };
        let write = cursor.write(reaction, before.expected())?;
        let commit = Commit::new().write(write);
        let commit = note.iter().try_fold(commit, |commit, note| Ok(commit.write(noted(note)?)))?;
        if store.commit(commit).await?.committed().is_ok() || done(store, note.as_ref()).await? {
            return given_on(store, reaction).await;
        }
    }
    Ok(Rerouted::Overtaken)
}

/// Whether it was done before.
async fn done(store: &Arc<dyn Store>, note: Option<&RecordKey>) -> Result<bool> {
    Ok(match note {
        Some(note) => store.get_one(note).await?.live().is_some(),
        None => false,
    })
}

/// Says that it is done, in the commit that does it.
fn noted(note: &RecordKey) -> Result<RecordWrite> {
    let write = RecordWrite::put(note, ExpectedRevision::Absent, RawJson::new(&())?);
    Ok(write.expiring(When::In(limits::COMMIT_MEMORY)))
}

/// Whoever routes loses the lease, so that the next holder reads the cursor.
async fn given_on(store: &Arc<dyn Store>, reaction: &ReactionName) -> Result<Rerouted> {
    let item = keys::route_item(reaction);
    let filter = ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str()));
    store.adjust(filter, Adjustment::Reset { to: Mark::ZERO }).await?;
    Ok(Rerouted::Anew)
}

async fn position(
    store: &Arc<dyn Store>,
    reaction: &ReactionName,
    from: StartFrom,
) -> Result<Position> {
    match from {
        StartFrom::Beginning => Ok(Position::START),
        StartFrom::Now => now(store, reaction).await,
    }
}

/// The end of the feed, found by being it.
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
