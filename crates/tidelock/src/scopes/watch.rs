//! Watching a scope for changes.
//!
//! A watch always yields the newest state, and may skip intermediate ones. In the store a change
//! hint triggers the next read; where no hint arrives, the watch polls slowly.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{ChangeHint, Revision, StoreExt, Timestamp, Topic};

use super::document::Document;
use super::error::ScopeError;
use super::local::Local;
use super::name::Name;
use super::state::ScopeState;
use crate::handle::Tidelock;

/// The default poll interval.
const POLL: Duration = Duration::from_secs(2);

/// Stream of a scope's states. Created by [`Scope::watch`](super::Scope::watch).
pub struct ScopeWatch<S> {
    source: Source<S>,
    /// The last state returned; `None` before the first read.
    seen: Option<Seen>,
}

enum Source<S> {
    Memory(Arc<Local<S>>),
    Store(Box<Stored>),
}

struct Stored {
    tidelock: Tidelock,
    name: Name,
    signal: ChangeHint,
    poll: Duration,
}

/// A revision, and whether the scope existed: an expired one keeps its revision.
type Seen = (Option<Revision>, bool);

impl<S: ScopeState> ScopeWatch<S> {
    pub(super) fn local(local: Arc<Local<S>>) -> Self {
        Self { source: Source::Memory(local), seen: None }
    }

    pub(super) fn durable(tidelock: Tidelock, name: Name) -> Self {
        // Subscribed before the first read, so that no change is missed.
        let signal = tidelock.store().signal(Topic::Record(name.key().clone()));
        Self {
            source: Source::Store(Box::new(Stored { tidelock, name, signal, poll: POLL })),
            seen: None,
        }
    }

    /// Sets the poll interval for changes that no hint announces.
    #[must_use]
    pub fn every(mut self, poll: Duration) -> Self {
        if let Source::Store(stored) = &mut self.source {
            stored.poll = poll;
        }
        self
    }

    /// Returns the current state at the first call, and at later calls the next state that differs
    /// from the last one.
    ///
    /// Deletion and expiry are reported too.
    ///
    /// # Errors
    /// [`Unreadable`](ScopeError::Unreadable) if the stored document does not match the type;
    /// errors of the store.
    ///
    /// # Cancel safety
    /// A state that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Document<S>, ScopeError> {
        let seen = self.seen;
        let document = match &mut self.source {
            Source::Memory(local) => local.after(seen.and_then(|(revision, _)| revision)).await,
            Source::Store(stored) => stored.after(seen).await?,
        };
        self.seen = Some(state_of(&document));
        Ok(document)
    }
}

impl Stored {
    async fn after<S: ScopeState>(
        &mut self,
        seen: Option<Seen>,
    ) -> Result<Document<S>, ScopeError> {
        loop {
            let slot = self.tidelock.store().get_one(self.name.key()).await?;
            if seen != Some((slot.revision(), slot.live().is_some())) {
                return Document::read(&self.name, &slot);
            }
            let expires_at = slot.live().and_then(|record| record.expires_at);
            let pause = self.pause(expires_at).await?;
            // Reads again, with or without a hint.
            let _ = tokio::time::timeout(pause, self.signal.wait()).await;
        }
    }

    /// Limits the wait to the expiry, which no hint announces.
    async fn pause(&self, expires_at: Option<Timestamp>) -> Result<Duration, ScopeError> {
        let Some(expires_at) = expires_at else { return Ok(self.poll) };
        let left = expires_at.since(self.tidelock.store().now().await?);
        Ok(left.min(self.poll))
    }
}

fn state_of<S>(document: &Document<S>) -> Seen {
    (document.revision, document.state.is_some())
}

impl<S> fmt::Debug for ScopeWatch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("seen", &self.seen).finish_non_exhaustive()
    }
}
