//! A route that this process holds.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tidelock_store::{Commit, LeaseToken, Position, Result, Revision};
use tokio_util::sync::CancellationToken;

use super::Cursor;
use crate::reactions::reaction::Reaction;

/// The routes that are held now.
pub(super) type Routes = HashMap<LeaseToken, HeldRoute>;

/// One reaction's route: the lease on it, and how far it has come.
#[derive(Debug, Clone)]
pub(super) struct HeldRoute {
    pub(super) reaction: Arc<Reaction>,
    pub(super) token: LeaseToken,
    pub(super) cursor: Cursor,
    /// What the record says; the cursor may be further on, past nothing of interest.
    pub(super) saved: Position,
    pub(super) failed: Failed,
}

impl HeldRoute {
    pub(super) fn new(reaction: Arc<Reaction>, token: LeaseToken, cursor: Cursor) -> Self {
        Self { reaction, token, saved: cursor.position, cursor, failed: Failed::default() }
    }

    pub(super) fn is_unsaved(&self) -> bool {
        self.saved != self.cursor.position
    }

    pub(super) fn saved_at(&mut self, position: Position, revision: Option<Revision>) {
        self.cursor.revision = revision;
        self.cursor.position = self.cursor.position.max(position);
        self.saved = position;
    }

    /// Saves the cursor, provided that the route is still held.
    pub(super) fn save(&self, commit: Commit) -> Result<Commit> {
        Ok(self.save_unfenced(commit)?.fenced_by(self.token.clone()))
    }

    /// Saves the cursor, in a commit that settles the lease itself.
    pub(super) fn save_unfenced(&self, commit: Commit) -> Result<Commit> {
        Ok(commit.write(self.cursor.write(&self.reaction.name, self.cursor.expected())?))
    }
}

/// Tells the holder of a route that it cannot go on.
#[derive(Debug, Clone, Default)]
pub(super) struct Failed {
    error: Arc<OnceLock<String>>,
    told: CancellationToken,
}

impl Failed {
    pub(super) fn tell(&self, error: String) {
        let _first = self.error.set(error);
        self.told.cancel();
    }

    pub(super) async fn told(&self) {
        self.told.cancelled().await;
    }

    pub(super) fn error(&self) -> Option<String> {
        self.error.get().cloned()
    }
}
