//! Moving what was committed from the log into the file proper.
//!
//! Left alone, SQLite does this inside whichever commit makes the log long, and that caller waits.
//! Here a thread with a connection of its own does the bulk of it while commits go on. Commits that
//! came meanwhile keep the log from starting anew, so the writer then moves those few pages itself,
//! between two transactions; after that the log begins again at its start instead of growing for
//! ever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, MAIN_DB};
use tidelock_store::{Result, StoreError};

use crate::busy_backoff::is_busy;

/// Pages in the log from which on it is worth moving them: 8 MiB.
const WORTH_MOVING: i32 = 2_000;
/// Pages in the log at which commits, of every process, are held up for a moment so that it can
/// begin anew: 32 MiB.
const LONG: i32 = 4 * WORTH_MOVING;
/// Pages in the log at which commits wait for the move: 512 MiB.
const TOO_LONG: i32 = 128_000;

/// How far a checkpoint has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody has asked for one.
    Rest,
    /// The thread moves the bulk.
    Moving,
    /// The writer should move the rest.
    NearlyDone,
}

/// The writer's side.
pub(crate) struct Checkpoints {
    wanted: Sender<()>,
    stage: Arc<Mutex<Stage>>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the thread; it ends when the writer does.
    pub(crate) fn start(connection: Connection) -> Result<Self> {
        let (wanted, requests) = crossbeam_channel::unbounded();
        let stage = Arc::new(Mutex::new(Stage::Rest));
        let shared = stage.clone();
        let thread = thread::Builder::new()
            .name("tidelock-checkpoint".into())
            .spawn(move || serve(connection, &requests, &shared))
            .map_err(|e| {
                StoreError::invalid("a thread for checkpoints cannot be started").caused_by(e)
            })?;
        Ok(Self { wanted, stage, thread })
    }

    /// Ends the thread and waits until it has let go of the file.
    pub(crate) fn close(self) {
        drop(self.wanted);
        // If it panicked, its connection is closed all the same.
        let _ = self.thread.join();
    }

    /// Has the log moved if it is long; says whether the writer must help.
    pub(crate) fn ask(&self, log_pages: i32) -> bool {
        if log_pages < WORTH_MOVING {
            return false;
        }
        let mut stage = lock(&self.stage);
        if *stage == Stage::Rest {
            let asked = self.wanted.send(()).is_ok();
            *stage = if asked { Stage::Moving } else { Stage::NearlyDone };
        }
        *stage == Stage::NearlyDone || log_pages >= TOO_LONG
    }

    /// Moves what is left, on the writer's connection, between two transactions.
    pub(crate) fn finish(&self, connection: &Connection) {
        if checkpoint(connection, CheckpointMode::PASSIVE).is_some() {
            *lock(&self.stage) = Stage::Rest;
        }
    }
}

fn serve(mut connection: Connection, requests: &Receiver<()>, stage: &Mutex<Stage>) {
    if let Err(error) = connection.busy_handler(Some(wait_shortly)) {
        tracing::warn!(%error, "the log may grow long while several processes write");
    }
    let mut long = LONG;
    for () in requests {
        let moved = checkpoint(&connection, CheckpointMode::PASSIVE);
        *lock(stage) = match moved {
            // With several processes there is always a commit that came meanwhile, so this one
            // keeps them all out.
            Some((log, _)) if log >= long => {
                let restarted = checkpoint(&connection, CheckpointMode::RESTART).is_some();
                // A reader is in the way and may be for long. Each try holds up every commit, so
                // they must be rare.
                long = if restarted { LONG } else { log.saturating_add(LONG) };
                Stage::Rest
            }
            Some((log, _)) => {
                long = long.min(log.saturating_add(LONG));
                Stage::NearlyDone
            }
            None => Stage::Rest,
        };
    }
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves what can be moved; gives the pages in the log and how many of them are moved, if it could
/// be tried.
///
/// A checkpoint that fails loses nothing: the log stays, and the next one tries again.
fn checkpoint(connection: &Connection, mode: CheckpointMode) -> Option<(i32, i32)> {
    match connection.wal_checkpoint_v2(Some(MAIN_DB), mode) {
        Ok(pages) => Some(pages),
        // Somebody else is at it, or a reader is in the way.
        Err(error) if is_busy(&error) => None,
        Err(error) => {
            tracing::warn!(%error, "a checkpoint failed; the log stays until the next one");
            None
        }
    }
}

/// Waits as shortly as the writers do; SQLite's own waiting would never be first. Gives up after a
/// fifth of a second.
fn wait_shortly(times: i32) -> bool {
    thread::sleep(Duration::from_micros(100));
    times < 2_000
}
