//! The states of a scope, one after the other.
//!
//! Whoever watches sees the newest state, always, and not necessarily every one before it. In the
//! store a signal says when to look, and a slow poll looks where no signal comes.

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

/// How long to wait for a signal, unless something else is asked for.
const POLL: Duration = Duration::from_secs(2);

/// The states of a scope from now on. Made by [`Scope::watch`](super::Scope::watch).
pub struct ScopeWatch<S> {
    source: Source<S>,
    /// What was seen last; nothing before the first look.
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

/// A revision, and whether there was a state: one that expires keeps its revision.
type Seen = (Option<Revision>, bool);

impl<S: ScopeState> ScopeWatch<S> {
    pub(super) fn local(local: Arc<Local<S>>) -> Self {
        Self { source: Source::Memory(local), seen: None }
    }

    pub(super) fn durable(tidelock: Tidelock, name: Name) -> Self {
        // Taken before the first look, so that nothing is missed.
        let signal = tidelock.store().signal(Topic::Record(name.key().clone()));
        Self {
            source: Source::Store(Box::new(Stored { tidelock, name, signal, poll: POLL })),
            seen: None,
        }
    }

    /// The same, looking this often where no signal comes from whoever changed the scope.
    #[must_use]
    pub fn every(mut self, poll: Duration) -> Self {
        if let Source::Store(stored) = &mut self.source {
            stored.poll = poll;
        }
        self
    }

    /// The scope as it is now, the first time; later, as it is once it is not as it was seen last.
    /// That it is gone is told as well.
    ///
    /// # Cancel safety
    /// What was not returned comes with the next call.
    pub async fn next(&mut self) -> Result<Document<S>, ScopeError> {
        let seen = self.seen;
        let document = match &mut self.source {
            Source::Memory(local) => local.after(seen.and_then(|(revision, _)| revision)).await,
            Source::Store(stored) => stored.after(seen).await?,
        };
        self.seen = Some(look(&document));
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
            // Whether it was told or not, it looks again.
            let _ = tokio::time::timeout(pause, self.signal.wait()).await;
        }
    }

    /// Nobody signals that a scope has expired.
    async fn pause(&self, expires_at: Option<Timestamp>) -> Result<Duration, ScopeError> {
        let Some(expires_at) = expires_at else { return Ok(self.poll) };
        let left = expires_at.since(self.tidelock.store().now().await?);
        Ok(left.min(self.poll))
    }
}

fn look<S>(document: &Document<S>) -> Seen {
    (document.revision, document.state.is_some())
}

impl<S> fmt::Debug for ScopeWatch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("seen", &self.seen).finish_non_exhaustive()
    }
}
