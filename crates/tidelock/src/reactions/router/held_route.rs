//! A route that this process holds.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tidelock_store::{Commit, LeaseToken, Position, Result, Revision};
use tokio_util::sync::CancellationToken;

use super::Cursor;
use crate::reactions::reaction::Reaction;

/// The currently held routes.
pub(super) type Routes = BTreeMap<LeaseToken, HeldRoute>;

/// One reaction's route: its lease and its cursor.
#[derive(Debug, Clone)]
pub(super) struct HeldRoute {
    pub(super) reaction: Arc<Reaction>,
    pub(super) token: LeaseToken,
    pub(super) cursor: Cursor,
    /// The stored position; the cursor may be ahead if it passed no relevant event.
    pub(super) saved: Position,
    pub(super) failed: RouteFailure,
}

impl HeldRoute {
    pub(super) fn new(reaction: Arc<Reaction>, token: LeaseToken, cursor: Cursor) -> Self {
        Self { reaction, token, saved: cursor.position, cursor, failed: RouteFailure::default() }
    }

    pub(super) fn is_unsaved(&self) -> bool {
        self.saved != self.cursor.position
    }

    pub(super) fn saved_at(&mut self, position: Position, revision: Option<Revision>) {
        self.cursor.revision = revision;
        self.cursor.position = self.cursor.position.max(position);
        self.saved = position;
    }

    /// Saves the cursor under the lease's fence.
    pub(super) fn save(&self, commit: Commit) -> Result<Commit> {
        Ok(self.save_unfenced(commit)?.fenced_by(self.token.clone()))
    }

    /// Saves the cursor in a commit that settles the lease.
    pub(super) fn save_unfenced(&self, commit: Commit) -> Result<Commit> {
        Ok(commit.write(self.cursor.write(&self.reaction.name, self.cursor.expected())?))
    }
}

/// Signals to the route's holder that routing failed.
#[derive(Debug, Clone, Default)]
pub(super) struct RouteFailure {
    error: Arc<OnceLock<String>>,
    signal: CancellationToken,
}

impl RouteFailure {
    pub(super) fn set(&self, error: String) {
        let _first = self.error.set(error);
        self.signal.cancel();
    }

    pub(super) async fn signalled(&self) {
        self.signal.cancelled().await;
    }

    pub(super) fn error(&self) -> Option<String> {
        self.error.get().cloned()
    }
}
