//! The spec of a worker process, sent to it when it starts.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::store::Position;

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
    /// The position in the feed at which the round began.
    pub(crate) start: Position,
    pub(crate) load: Load,
    /// The flaw of the store under it, as a positive control.
    pub(crate) flaw: Option<Flaw>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Appends events and wakes the items of their streams.
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

/// Whether a consumer, reactor, runner or claimant now and then holds its leases, reports it, and
/// waits for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Holds {
    Never,
    /// One of its callers does, while the others continue: the fault hits them in the middle of
    /// anything.
    AmongOthers,
    /// Its only caller does, so that it has no other call in flight. A process that is stopped in
    /// the middle of a transaction keeps a file locked for as long as it is stopped, and no store
    /// can help that.
    Alone,
}

/// The load of a scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Number of streams, each with its item.
    pub(crate) streams: u64,
    /// Concurrent calls of one process.
    pub(crate) callers: usize,
    pub(crate) lease: Duration,
    /// Whether leases end in every way, or in acks only.
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

impl Load {
    /// For scenarios whose other work takes several commits at a time: committers slow down.
    pub(crate) fn slow() -> Self {
        Self { callers: 2, pause: Duration::from_millis(40), ..Self::default() }
    }
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
