//! Peers: job queues of others, each a process of the program that `--peer` names.
//!
//! Its protocol is in `crates/bench/peers`, which compiles them.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidelock::store::async_trait;
use tokio::task::block_in_place;

use crate::child::Child;
use crate::database::Database;
use crate::failure::Failure;
use crate::measure::{Side, Slice};
use crate::schemas::Schemas;
use crate::target::Target;
use crate::workloads::Done;

/// The names by which the program knows them.
const NAMES: [&str; 2] = ["river", "graphile_worker"];

/// The peers of a run: none without a program, or where they have no store.
pub(super) struct Peers<'a> {
    pub(super) all: Vec<Peer<'a>>,
}

/// A job queue of others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer<'a> {
    pub(super) name: &'static str,
    program: &'a Path,
    database: &'a Database,
}

/// A peer with its own tables.
pub(super) struct PeerStore<'a> {
    peer: Peer<'a>,
    schemas: Schemas,
}

impl<'a> Peers<'a> {
    pub(super) fn of(program: Option<&'a Path>, target: &'a Target) -> Self {
        let all = match (program, target) {
            (Some(program), Target::Postgres { database, .. }) => {
                NAMES.map(|name| Peer { name, program, database }).to_vec()
            }
            _ => Vec::new(),
        };
        Self { all }
    }
}

impl<'a> Peer<'a> {
    /// Makes a schema for its tables.
    pub(super) async fn store(self) -> Result<PeerStore<'a>, Failure> {
        let schemas = Schemas::make(self.database, &[&self.schema()]).await?;
        Ok(PeerStore { peer: self, schemas })
    }

    fn schema(&self) -> String {
        format!("tidelock_bench_{}", self.name)
    }
}

impl PeerStore<'_> {
    /// A process of the peer, with as many jobs at once.
    pub(super) fn process(&self, slots: usize) -> Result<Child, Failure> {
        let Peer { name, program, database } = self.peer;
        let place = json!({ "url": database.url(), "schema": self.peer.schema() });
        let args = [name.to_owned(), slots.to_string()];
        block_in_place(|| Child::start_program(program, &args, &place.to_string()))
    }

    /// Enqueues jobs, in calls of many.
    pub(super) fn fill(&self, jobs: usize) -> Result<(), Failure> {
        let mut child = self.process(1)?;
        block_in_place(|| {
            child.tell(&format!("fill {jobs}"))?;
            match child.hear()?.as_str() {
                "filled" => Ok(()),
                other => Err(Failure::Answer(format!("a peer did not fill its queue: {other:?}"))),
            }
        })
    }

    /// Removes its tables.
    pub(super) async fn clear(self) -> Result<(), Failure> {
        self.schemas.clear().await
    }
}

/// Callers of a peer, in a process of its own.
pub(super) struct PeerCallers {
    pub(super) child: Child,
    pub(super) callers: usize,
    pub(super) batch: usize,
}

#[async_trait]
impl Side for PeerCallers {
    async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure> {
        let order = format!("enqueue {} {} {}", self.callers, self.batch, slice.as_micros());
        block_in_place(|| {
            self.child.tell(&order)?;
            let line = self.child.hear()?;
            let done: Done = serde_json::from_str(&line)
                .map_err(|_| Failure::Answer(format!("a peer ended in the middle: {line:?}")))?;
            Ok(Slice::all_of([done]))
        })
    }
}
