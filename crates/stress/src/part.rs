//! What a worker process is told when it starts.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::Position;

use crate::broken::Flaw;
use crate::space::Space;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerSpec {
    pub(crate) role: Role,
    /// Its name in the journals and in the store's leases.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) journal: PathBuf,
    pub(crate) seed: u64,
    pub(crate) space: Space,
    /// Where in the feed the round began.
    pub(crate) start: Position,
    pub(crate) load: Load,
    /// What the store under it does wrong, to see that it is noticed.
    pub(crate) flaw: Option<Flaw>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Appends events and wakes the items that have work by it.
    Committer,
    /// Leases items and drains their streams.
    Consumer(Holds),
    /// Reads the feed while it grows.
    Follower,
    /// Runs an application that reacts to the events.
    Reactor(Holds),
    /// Starts runs.
    Starter,
    /// Drives runs.
    Runner(Holds),
    /// Claims keys, locks and quotas.
    Claimant(Holds),
    /// Changes scopes.
    Changer,
    /// Books in accounts.
    Booker,
    /// Closes the books of accounts.
    Closer,
}

/// Whether a consumer, reactor, runner or claimant now and then holds the leases it has, says so,
/// and waits for what happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Holds {
    Never,
    /// One of its callers does, while the others go on: whatever happens hits them in the middle of
    /// anything.
    AmongOthers,
    /// Its only caller does, so that nothing else of it is under way. A process that is stopped in
    /// the middle of a transaction keeps a file locked for as long as it is stopped, and no store
    /// can help that.
    Alone,
}

/// How the work of a scenario looks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    /// How many streams there are, each with its item.
    pub(crate) streams: u64,
    /// How many calls of one process are under way at once.
    pub(crate) callers: usize,
    pub(crate) lease: Duration,
    /// Whether leases end in every way there is, or in acks only.
    pub(crate) exits: Exits,
    /// How long a committer waits between two commits.
    pub(crate) pause: Duration,
    /// Whether there are reactions to the events.
    pub(crate) reacts: bool,
    /// Whether there are runs.
    pub(crate) runs: bool,
    /// Whether there are accounts.
    pub(crate) closes: bool,
    /// Whether there are scopes.
    pub(crate) scopes: bool,
    /// Whether there are claims.
    pub(crate) claims: bool,
    /// How long a caller waits for an answer before it takes the outcome for unknown.
    pub(crate) patience: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exits {
    Acks,
    All,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            streams: 24,
            callers: 6,
            lease: Duration::from_millis(500),
            exits: Exits::Acks,
            pause: Duration::ZERO,
            reacts: false,
            runs: false,
            closes: false,
            scopes: false,
            claims: false,
            patience: Duration::from_secs(5),
        }
    }
}
