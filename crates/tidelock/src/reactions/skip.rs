//! Skips: an operator's decision that a target goes on without the event that it is blocked on.
//!
//! Only a process that registers the reaction knows which event that is, because the others are
//! not for it. So the decision is a record, beside what is known of a rebuild, and the worker that
//! leases the target next carries it out: the ack past the event, and the record of what was
//! skipped and why, are one commit under the fence of its lease. A decision is about one place; a
//! target that is elsewhere by then ignores it.
//!
//! The decision and the unblocking are two writes. A caller that dies between them leaves the
//! target blocked, and the same call again finishes the skip.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, CommitOutcome, EventId, EventType, ExpectedRevision, Item, ItemRef, Mark, Position,
    RawJson, RecordWrite, Result, Store, StoreError, StoreExt, StoredEvent, StreamName, Timestamp,
    Version, When,
};

use super::rebuild::{Rebuild, StoredRebuild};
use super::{ReactionName, TargetInfo, keys};

/// How often the decision is written when the record is changed at the same time.
const ATTEMPTS: usize = 20;

/// How long the record of a skipped event is kept.
const KEPT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// What became of a decision to skip an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum SkipOutcome {
    /// The target is unblocked, and the worker that leases it next skips the event.
    Requested,
    /// The target is not blocked, so nothing was done.
    NotBlocked,
    /// The target is not where it was, so nothing was done: it may wait for another event now.
    Moved,
}

/// An event that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SkippedEvent {
    /// The reaction.
    pub reaction: String,
    /// The target; a reserved name if the event had no route.
    pub target: String,
    /// The id of the event.
    pub event: EventId,
    /// The stream of the event.
    pub stream: StreamName,
    /// Its version.
    pub version: Version,
    /// Its position.
    pub position: Position,
    /// Its type.
    pub event_type: EventType,
    /// Why it was skipped.
    pub reason: String,
    /// The error that blocked the target.
    pub error: Option<String>,
    /// When it was skipped.
    pub at: Timestamp,
}

/// The decision, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSkip {
    /// The place of the target that it is about.
    pub(crate) at: Mark,
    reason: String,
    error: Option<String>,
}

impl StoredSkip {
    /// The record of an event that is skipped by this decision.
    pub(super) fn record(
        &self,
        reaction: &ReactionName,
        item: &ItemRef,
        event: &StoredEvent,
        now: Timestamp,
    ) -> Result<RecordWrite> {
        let skipped = SkippedEvent {
            reaction: reaction.to_string(),
            target: item.key.to_string(),
            event: event.id,
            stream: event.stream.clone(),
            version: event.version,
            position: event.position,
            event_type: event.event_type.clone(),
            reason: self.reason.clone(),
            error: self.error.clone(),
            at: now,
        };
        let key = keys::skipped(reaction, event.position);
        let put = RecordWrite::put(&key, ExpectedRevision::Any, RawJson::new(&skipped)?);
        Ok(put.expiring(When::In(KEPT)))
    }
}

/// Stores the decision, if the target is blocked where it was seen.
pub(super) async fn request(
    store: &dyn Store,
    seen: &TargetInfo,
    reason: &str,
) -> Result<SkipOutcome> {
    if reason.trim().is_empty() {
        return Err(StoreError::invalid("an event is skipped for a reason: it is empty"));
    }
    let item = item_of(seen)?;
    let key = keys::rebuild(&seen.reaction, &item.key)?;
    for _ in 0..ATTEMPTS {
        let slot = store.get_one(&key).await?;
        let there = match store.item(&item).await? {
            Some(there) if there.at != seen.at => return Ok(SkipOutcome::Moved),
            Some(there) if there.blocked => there,
            Some(_) => return Ok(SkipOutcome::NotBlocked),
            None => return Ok(SkipOutcome::Moved),
        };
        let stored = Rebuild::read(&slot)?.map_or_else(StoredRebuild::none, |there| there.stored);
        let stored = StoredRebuild { skip: Some(decision(&there, reason)), ..stored };
        let expected = slot
            .live()
            .map_or(ExpectedRevision::Absent, |there| ExpectedRevision::Revision(there.revision));
        let put = RecordWrite::put(&key, expected, RawJson::new(&stored)?);
        if let CommitOutcome::Committed(_) = store.commit(Commit::new().write(put)).await? {
            return Ok(SkipOutcome::Requested);
        }
    }
    Ok(SkipOutcome::Moved)
}

pub(super) fn item_of(seen: &TargetInfo) -> Result<ItemRef> {
    ItemRef::parse(&keys::queue_named(&seen.reaction), &seen.target)
}

fn decision(item: &Item, reason: &str) -> StoredSkip {
    StoredSkip { at: item.at, reason: reason.to_owned(), error: item.error.clone() }
}
